// Package engine runs requests, commands and tasks on a state.World, as pvedaemon does on all nodes: it numbers them,
// lets faults and third parties strike, and keeps file locks and appointments. The packages above know the meaning of
// the requests; they give the engine their routes.
package engine

// SubdirIndex answers an index method.
func SubdirIndex(key string, names ...string) Func {
	return func(*Request) (any, error) {
		list := []any{}
		for _, name := range names {
			list = append(list, map[string]any{key: name})
		}
		return list, nil
	}
}

// EmptyList answers an empty list.
func EmptyList(*Request) (any, error) { return []any{}, nil }

// Subdirs is an index of paths, by the key "subdir".
func Subdirs(names ...string) []any {
	list := make([]any, 0, len(names))
	for _, n := range names {
		list = append(list, map[string]any{"subdir": n})
	}
	return list
}
