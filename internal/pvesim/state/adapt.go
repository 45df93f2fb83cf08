package state

import "slices"

// Adapt takes away what the profile's release does not know: content of type import.
func (w *World) Adapt() {
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
