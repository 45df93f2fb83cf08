// Package shell is root's command line on a node: qm, pvesm, zfs and a few tools, on the same code as the API.
package shell

import (
	"crypto/sha256"
	"fmt"
)

// sha256sum reads a volume by its path. In the simulator the label of a volume stands for its content, so the label is
// summed up.
func (s *Shell) sha256sum(args []string, _ map[string]string) int {
	if len(args) == 0 {
		return s.usage("sha256sum FILE")
	}
	for _, v := range s.r.W.Volumes {
		storage := s.r.W.Storages[v.Storage]
		if storage != nil && storage.VolumePath(v.Name) == args[0] &&
			(v.Node == "" || v.Node == s.r.Node() || storage.Shared) {
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
		var vmid int
		if _, err := fmt.Sscanf(path, "/etc/pve/firewall/%d.fw", &vmid); err == nil {
			delete(s.r.W.Firewall, vmid)
			continue
		}
		files := s.r.W.Nodes[s.r.Node()].Files
		if _, there := files[path]; !there && opts["f"] == "" {
			_, _ = fmt.Fprintf(s.err, "rm: cannot remove '%s': No such file or directory\n", path)
			status = 1
		}
		delete(files, path)
	}
	return status
}
