// Package shell is root's command line on a node: qm, pvesm, zfs and a few tools, on the same code as the API.
package shell

import (
	"crypto/sha256"
	"fmt"
	"io"
	"path"
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

// rm removes files of the node by their paths, those in content directories of its storages as well.
func (s *Shell) rm(args []string, opts map[string]string) int {
	status := 0
	for _, name := range args {
		var vmid int
		if _, err := fmt.Sscanf(name, "/etc/pve/firewall/%d.fw", &vmid); err == nil {
			delete(s.r.W.Firewall, vmid)
			continue
		}
		file := absolute(name)
		if _, there := s.r.W.NodeFile(s.r.Node(), file); there {
			s.r.W.RemoveNodeFile(s.r.Node(), file)
		} else if opts["f"] == "" {
			_, _ = fmt.Fprintf(s.err, "rm: cannot remove '%s': No such file or directory\n", name)
			status = 1
		}
	}
	return status
}

// missing complains of a path.
func (s *Shell) missing(program, name string) int {
	_, _ = fmt.Fprintf(s.err, "%s: %s: No such file or directory\n", program, name)
	return 1
}

// absolute is a path as root's home has it.
func absolute(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join("/root", name)
}

// cat prints files of the node, or its standard input.
func (s *Shell) cat(args []string, _ map[string]string) int {
	if len(args) == 0 {
		_, _ = io.Copy(s.out, s.in)
	}
	status := 0
	for _, name := range args {
		data, ok := s.r.W.NodeFile(s.r.Node(), absolute(name))
		if !ok {
			status = s.missing("cat", name)
			continue
		}
		_, _ = io.WriteString(s.out, data)
	}
	return status
}

// tee writes its standard input to files of the node and on.
func (s *Shell) tee(args []string, opts map[string]string) int {
	data, err := io.ReadAll(s.in)
	if err != nil {
		return s.fail(err)
	}
	status := 0
	for _, name := range args {
		file := absolute(name)
		if !s.r.W.HasDirectory(s.r.Node(), path.Dir(file)) {
			status = s.missing("tee", name)
			continue
		}
		before := ""
		if opts["a"] != "" {
			before, _ = s.r.W.NodeFile(s.r.Node(), file)
		}
		s.r.W.PutNodeFile(s.r.Node(), file, before+string(data))
	}
	_, _ = s.out.Write(data)
	return status
}

// mkdir makes directories of the node, with -p those on the way to them as well.
func (s *Shell) mkdir(args []string, opts map[string]string) int {
	status := 0
	for _, name := range args {
		dir := absolute(name)
		_, file := s.r.W.NodeFile(s.r.Node(), dir)
		switch there := s.r.W.HasDirectory(s.r.Node(), dir); {
		case there && !file && opts["p"] != "":
		case file, there && opts["p"] == "":
			_, _ = fmt.Fprintf(s.err, "mkdir: cannot create directory '%s': File exists\n", name)
			status = 1
		case !there && opts["p"] == "" && !s.r.W.HasDirectory(s.r.Node(), path.Dir(dir)):
			_, _ = fmt.Fprintf(s.err, "mkdir: cannot create directory '%s': No such file or directory\n", name)
			status = 1
		default:
			s.r.W.Nodes[s.r.Node()].MakeDirectory(dir)
		}
	}
	return status
}
