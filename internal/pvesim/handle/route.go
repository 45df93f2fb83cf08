package handle

import "maps"

// routes are all that the simulator gives a meaning to.
func routes() Routes {
	all := Routes{}
	for _, area := range []Routes{} {
		maps.Copy(all, area)
	}
	return all
}
