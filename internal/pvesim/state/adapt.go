package state

import (
	"maps"
	"slices"
)

// Adapt takes away what the profile's release does not know: storages of type esxi, content of type import.
func (w *World) Adapt() {
	for id, s := range w.Storages {
		if s.Type == "esxi" && !w.Has(ESXiStorage) {
			maps.DeleteFunc(w.Volumes, func(at VolumeKey, _ *Volume) bool { return at.Storage == id })
			delete(w.Storages, id)
		}
	}
	if w.Has(ImportContent) {
		return
	}
	for _, s := range w.Storages {
		s.Content = slices.DeleteFunc(slices.Clone(s.Content), func(c string) bool { return c == "import" })
	}
	for key, v := range w.Volumes {
		if v.Content == "import" {
			delete(w.Volumes, key)
		}
	}
}
