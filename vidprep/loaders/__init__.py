"""From specs to pixels: the cut, the decode engines, the DALI graph, the loader."""
