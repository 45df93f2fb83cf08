package handle

import (
	"crypto/sha256"
	"fmt"
)

// sha256sum reads a volume by its path. What it holds is told by its label in the simulator, so that is what is summed up.
func (s *Shell) sha256sum(args []string, _ map[string]string) int {
	if len(args) == 0 {
		return s.usage("sha256sum FILE")
	}
	for _, v := range s.r.W.Volumes {
		storage := s.r.W.Storages[v.Storage]
		if storage != nil && storage.VolumePath(v.Name) == args[0] && (v.Node == "" || v.Node == s.r.node() || storage.Shared) {
			_, _ = fmt.Fprintf(s.out, "%x  %s\n", sha256.Sum256([]byte(v.Data)), args[0])
			return 0
		}
	}
	_, _ = fmt.Fprintf(s.err, "sha256sum: %s: No such file or directory\n", args[0])
	return 1
}
