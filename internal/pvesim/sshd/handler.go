package sshd

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/interp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// refused is the name of the command that stands for one that is not simulated.
const refused = "\x00refused"

// allow keeps builtins that would look at the machine from the interpreter.
func allow(_ context.Context, args []string) ([]string, error) {
	name := args[0]
	switch {
	case !interp.IsBuiltin(name):
		return args, nil
	case name == "command" && len(args) == 3 && args[1] == "-v":
		return []string{"which", args[2]}, nil
	case name == "test" || name == "[":
		for _, operator := range []string{"-r", "-w", "-x", "-ef", "-nt", "-ot"} {
			if slices.Contains(args, operator) {
				return append([]string{refused}, args...), nil
			}
		}
		return args, nil
	case slices.Contains([]string{
		":", "true", "false", "exit", "set", "shift", "unset", "echo", "printf", "break", "continue", "eval", "exec",
		"return", "read",
	}, name):
		return args, nil
	}
	return append([]string{refused}, args...), nil
}

func noDirectory(context.Context, string) ([]fs.DirEntry, error) { return nil, fs.ErrNotExist }

// absolute is a path as the shell's working directory, root's home, has it.
func absolute(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join("/root", name)
}

// on runs a step of the shell on the files of the node, as an operation of the cluster.
func (c *session) on(what string, f func(w *state.World, node string) error) error {
	var err error
	command := engine.Command{Node: c.node, Path: "sh " + what, Line: c.line}
	end := c.server.cluster.Run(command, func(r *engine.Request) int {
		if err = f(r.W, c.node); err != nil {
			return 1
		}
		return 0
	})
	switch {
	case end.Cut:
		return errCut
	case end.Refusal != "":
		return &fs.PathError{Op: what, Path: strings.TrimSpace(end.Refusal), Err: fs.ErrPermission}
	}
	return err
}

// open opens a file of the node for a redirection.
func (c *session) open(_ context.Context, name string, flags int, _ os.FileMode) (io.ReadWriteCloser, error) {
	if name == "/dev/null" {
		return &file{}, nil
	}
	f := &file{session: c, name: absolute(name)}
	if flags&(os.O_WRONLY|os.O_RDWR) == 0 {
		return f, c.on("read", func(w *state.World, node string) error {
			data, ok := w.NodeFile(node, f.name)
			if !ok {
				return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}
			f.rest = data
			return nil
		})
	}
	return f, c.on("write", func(w *state.World, node string) error {
		data, there := w.NodeFile(node, f.name)
		if !there && !w.HasDirectory(node, path.Dir(f.name)) {
			return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		if flags&os.O_TRUNC != 0 {
			data = ""
		}
		w.PutNodeFile(node, f.name, data)
		return nil
	})
}

// file is a file of the node that a redirection has opened; without a session it is /dev/null.
type file struct {
	*session
	name, rest string
}

// Read reads on.
func (f *file) Read(p []byte) (int, error) {
	if f.rest == "" {
		return 0, io.EOF
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// Write appends.
func (f *file) Write(p []byte) (int, error) {
	if f.session == nil {
		return len(p), nil
	}
	f.server.cluster.Do(func(w *state.World) {
		data, _ := w.NodeFile(f.node, f.name)
		w.PutNodeFile(f.node, f.name, data+string(p))
	})
	return len(p), nil
}

// Close does nothing: what is written is there.
func (f *file) Close() error { return nil }

// stat looks at a path of the node, for "test".
func (c *session) stat(_ context.Context, name string, _ bool) (fs.FileInfo, error) {
	var found listing
	var ok bool
	c.server.cluster.Do(func(w *state.World) { found, ok = look(w, c.node, absolute(name)) })
	if !ok {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return found, nil
}
