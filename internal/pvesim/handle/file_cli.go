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

// rm removes files of the node by their paths.
func (s *Shell) rm(args []string, opts map[string]string) int {
	status := 0
	for _, path := range args {
		files := s.r.W.Nodes[s.r.node()].Files
		if _, there := files[path]; !there && opts["f"] == "" {
			_, _ = fmt.Fprintf(s.err, "rm: cannot remove '%s': No such file or directory\n", path)
			status = 1
		}
		delete(files, path)
	}
	return status
}
