package state

import (
	"maps"
	"slices"
)

// Adapt takes away what the profile's release does not know: storages of type esxi, content of type import on others.
func (w *World) Adapt() {
	for id, s := range w.Storages {
		switch {
		case s.Type == "esxi" && !w.Has(ESXiStorage):
			maps.DeleteFunc(w.Volumes, func(at VolumeKey, _ *Volume) bool { return at.Storage == id })
			delete(w.Storages, id)
		case s.Type != "esxi" && !w.Has(ImportContent):
			s.Content = slices.DeleteFunc(slices.Clone(s.Content), func(c string) bool { return c == "import" })
			maps.DeleteFunc(w.Volumes, func(at VolumeKey, v *Volume) bool { return at.Storage == id && v.Content == "import" })
		}
	}
}
