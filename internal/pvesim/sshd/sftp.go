package sshd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// files is the file transfer of one session. Each of its requests is an operation of the cluster, "sftp open", "sftp
// write" …, which faults meet as they meet a command.
type files struct {
	server *Server
	node   string
	cut    func() // drops the connection
}

var (
	_ sftp.FileReader           = &files{}
	_ sftp.FileWriter           = &files{}
	_ sftp.PosixRenameFileCmder = &files{}
	_ sftp.LstatFileLister      = &files{}
)

// transfer serves the subsystem "sftp" until the client ends it.
func (s *Server) transfer(conn ssh.Conn, node string, channel ssh.Channel) {
	if !s.online(node) {
		_ = conn.Close()
		return
	}
	s.greet(node, channel)
	f := &files{server: s, node: node, cut: func() { _ = conn.Close() }}
	_ = sftp.NewRequestServer(channel, sftp.Handlers{FileGet: f, FilePut: f, FileCmd: f, FileList: f}).Serve()
}

// do carries out a request.
func (f *files) do(what, line string, act func(w *state.World) error) error {
	var refused error
	end := f.server.cluster.Run(engine.Command{Node: f.node, Path: "sftp " + what, Line: what + " " + line},
		func(r *engine.Request) int {
			if refused = act(r.W); refused != nil {
				return 1
			}
			return 0
		})
	switch {
	case end.Cut:
		f.cut()
		return sftp.ErrSSHFxConnectionLost
	case end.Refusal != "":
		return errors.New(strings.TrimSuffix(end.Refusal, "\n"))
	}
	return refused
}

// Fileread opens a file to read it.
func (f *files) Fileread(r *sftp.Request) (io.ReaderAt, error) {
	var reader io.ReaderAt
	err := f.do("read", r.Filepath, func(w *state.World) error {
		data, ok := w.NodeFile(f.node, r.Filepath)
		if !ok {
			return os.ErrNotExist
		}
		reader = strings.NewReader(data)
		return nil
	})
	return reader, err
}

// Filewrite opens a file to write it.
func (f *files) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	flags := r.Pflags()
	err := f.do("open", r.Filepath, func(w *state.World) error {
		_, there := w.NodeFile(f.node, r.Filepath)
		switch {
		case there && flags.Excl:
			return sftp.ErrSSHFxFailure // all that the third version has to say (openssh sftp-server.c errno_to_portable)
		case w.HasDirectory(f.node, r.Filepath):
			return sftp.ErrSSHFxFailure
		case !there && (!flags.Creat || !w.HasDirectory(f.node, path.Dir(r.Filepath))):
			return os.ErrNotExist
		case !there || flags.Trunc:
			w.PutNodeFile(f.node, r.Filepath, "")
		}
		if !there {
			state.SetMode(w, f.node, r.Filepath, 0o644) // by the umask
		}
		return nil
	})
	return &writing{f, r.Filepath}, err
}

// writing is a file that is open to be written.
type writing struct {
	*files
	path string
}

// WriteAt writes a part.
func (f *writing) WriteAt(p []byte, offset int64) (int, error) {
	err := f.do("write", fmt.Sprintf("%s %d+%d", f.path, offset, len(p)), func(w *state.World) error {
		data, ok := w.NodeFile(f.node, f.path)
		if !ok {
			return os.ErrNotExist
		}
		end := offset + int64(len(p))
		all := append([]byte(data), make([]byte, max(0, end-int64(len(data))))...)
		copy(all[offset:], p)
		w.PutNodeFile(f.node, f.path, string(all))
		return nil
	})
	return len(p), err
}

// Filecmd changes, renames or removes a file. OpenSSH renames by a new link, so that nothing is overwritten
// (sftp-server.c process_rename).
func (f *files) Filecmd(r *sftp.Request) error {
	switch r.Method {
	case "Setstat":
		return f.setstat(r)
	case "Rename":
		return f.rename("rename", r, false)
	case "Mkdir":
		return f.do("mkdir", r.Filepath, func(w *state.World) error { return makeDirectory(w, f.node, r.Filepath) })
	case "Remove":
		return f.do("remove", r.Filepath, func(w *state.World) error {
			if _, ok := w.NodeFile(f.node, r.Filepath); !ok {
				return os.ErrNotExist
			}
			w.RemoveNodeFile(f.node, r.Filepath)
			return nil
		})
	}
	return sftp.ErrSSHFxOpUnsupported
}

// makeDirectory makes a directory. One that is there is a plain failure in the third version of the protocol (openssh
// sftp-server.c errno_to_portable).
func makeDirectory(w *state.World, node, name string) error {
	if _, there := look(w, node, name); there {
		return sftp.ErrSSHFxFailure
	}
	if !w.HasDirectory(node, path.Dir(name)) {
		return os.ErrNotExist
	}
	w.Nodes[node].MakeDirectory(name)
	return nil
}

// setstat sets a size and a mode.
func (f *files) setstat(r *sftp.Request) error {
	flags, wanted := r.AttrFlags(), r.Attributes()
	line := r.Filepath
	if flags.Permissions {
		line += " " + wanted.FileMode().String()
	}
	return f.do("setstat", line, func(w *state.World) error {
		data, ok := w.NodeFile(f.node, r.Filepath)
		if !ok {
			return os.ErrNotExist
		}
		if flags.Permissions {
			state.SetMode(w, f.node, r.Filepath, state.Mode(wanted.FileMode().Perm()))
		}
		if flags.Size {
			size := int(wanted.Size)
			w.PutNodeFile(f.node, r.Filepath, (data + strings.Repeat("\x00", max(0, size-len(data))))[:size])
		}
		return nil
	})
}

// PosixRename renames a file over whatever is there.
func (f *files) PosixRename(r *sftp.Request) error { return f.rename("posix-rename", r, true) }

func (f *files) rename(what string, r *sftp.Request, over bool) error {
	return f.do(what, r.Filepath+" "+r.Target, func(w *state.World) error {
		data, ok := w.NodeFile(f.node, r.Filepath)
		if !ok || !w.HasDirectory(f.node, path.Dir(r.Target)) {
			return os.ErrNotExist
		}
		if _, taken := w.NodeFile(f.node, r.Target); taken && !over {
			return sftp.ErrSSHFxFailure // all that the third version has to say (openssh sftp-server.c errno_to_portable)
		}
		w.PutNodeFile(f.node, r.Target, data)
		state.SetMode(w, f.node, r.Target, state.ModeOf(w, f.node, r.Filepath))
		w.RemoveNodeFile(f.node, r.Filepath)
		return nil
	})
}

// Filelist tells of one file or directory; directories are not listed.
func (f *files) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	if r.Method != "Stat" && r.Method != "Lstat" {
		return nil, sftp.ErrSSHFxOpUnsupported
	}
	var found listing
	err := f.do("stat", r.Filepath, func(w *state.World) error {
		var there bool
		if found, there = look(w, f.node, r.Filepath); !there {
			return os.ErrNotExist
		}
		return nil
	})
	return found, err
}

// Lstat is the same, since there are no links.
func (f *files) Lstat(r *sftp.Request) (sftp.ListerAt, error) { return f.Filelist(r) }

// listing is one regular file or directory.
type listing struct {
	name string
	size int64
	mode fs.FileMode
}

// look is what a node has at a path.
func look(w *state.World, node, name string) (found listing, there bool) {
	if data, ok := w.NodeFile(node, name); ok {
		return listing{name: name, size: int64(len(data)), mode: state.ModeOf(w, node, name).Bits()}, true
	}
	return listing{name: name, mode: fs.ModeDir | 0o755}, w.HasDirectory(node, name)
}

// ListAt gives the one file.
func (l listing) ListAt(into []os.FileInfo, from int64) (int, error) {
	if from > 0 || len(into) == 0 {
		return 0, io.EOF
	}
	into[0] = l
	return 1, io.EOF
}

// Name is the file's path: a client asks by it.
func (l listing) Name() string { return l.name }

// Size is in bytes.
func (l listing) Size() int64 { return l.size }

// Mode is that of a file or a directory of root's.
func (l listing) Mode() fs.FileMode { return l.mode }

// ModTime is not kept.
func (l listing) ModTime() time.Time { return time.Time{} }

// IsDir reports whether it is a directory.
func (l listing) IsDir() bool { return l.mode.IsDir() }

// Sys is nothing.
func (l listing) Sys() any { return nil }
