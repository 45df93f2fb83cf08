package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/pkg/sftp"
)

// maxFile is how many bytes of a file are read. PVE itself reads no more of a snippet than 1 MiB (qemu-server
// QemuServer/Cloudinit.pm read_cloudinit_snippets_file).
const maxFile = 4 << 20

// VolumePath is the path of a file volume on a node, whether the file is there or not (pvesm path).
func (s *Shell) VolumePath(ctx context.Context, node, volid string) (string, error) {
	return s.volumePath(ctx, "find the path of volume "+volid, node, volid)
}

// ReadFile reads a file of a node. One that does not exist is fs.ErrNotExist.
func (s *Shell) ReadFile(ctx context.Context, node, name string) ([]byte, error) {
	var data []byte
	err := s.transfer(ctx, transfer{op: "read " + name, node: node, again: true}, func(c *sftp.Client) error {
		file, err := c.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // it was only read
		data, err = io.ReadAll(io.LimitReader(file, maxFile+1))
		if err == nil && len(data) > maxFile {
			err = fmt.Errorf("it is larger than %d bytes", maxFile)
		}
		return err
	})
	return data, err
}

// CreateFile makes a file of a node, whole or not at all: nobody sees a part of it. Where one of that name is there already nothing is
// changed and the error is fs.ErrExist.
func (s *Shell) CreateFile(ctx context.Context, node, name string, data []byte, mode fs.FileMode) error {
	return s.put(ctx, "create "+name, node, name, data, mode, func(c *sftp.Client, temporary string) error {
		if _, missing := c.Lstat(name); missing == nil {
			return fs.ErrExist // what else may serve SFTP renames over it
		}
		err := c.Rename(temporary, name) // of OpenSSH, by a new link: it does not overwrite (sftp-server.c process_rename)
		if err != nil {
			if _, missing := c.Lstat(name); missing == nil {
				return fs.ErrExist
			}
		}
		return err
	})
}

// ReplaceFile writes a file of a node anew, whole or not at all, if it is still what the caller has seen: its SHA-256 is checked right
// before. Another is *ChangedError. A file that is gone is made again.
func (s *Shell) ReplaceFile(ctx context.Context, node, name, seen string, data []byte, mode fs.FileMode) error {
	return s.put(ctx, "replace "+name, node, name, data, mode, func(c *sftp.Client, temporary string) error {
		if err := unchanged(c, name, seen); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		err := c.PosixRename(temporary, name)
		if errors.Is(err, fs.ErrNotExist) && unchanged(c, name, SHA256Of(data)) == nil {
			return nil // another process has just put the same there
		}
		return err
	})
}

// RemoveFile removes a file of a node if it is still what the caller has seen, as ReplaceFile does. One that is gone is a success.
func (s *Shell) RemoveFile(ctx context.Context, node, name, seen string) error {
	return s.transfer(ctx, transfer{op: "remove " + name, node: node, again: true}, func(c *sftp.Client) error {
		err := unchanged(c, name, seen)
		if err == nil {
			err = c.Remove(name)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// ChangedError says that a file is not what the caller has seen. It was not touched.
type ChangedError struct{ SHA256 string }

// Error says what it is now.
func (e *ChangedError) Error() string {
	return "somebody has changed it meanwhile: its sha256 is now " + e.SHA256 + "; it was not touched"
}

func unchanged(c *sftp.Client, name, seen string) error {
	file, err := c.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()                      // it was only read
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1)) // a larger one is another
	if err != nil {
		return err
	}
	if is := SHA256Of(data); is != seen {
		return &ChangedError{SHA256: is}
	}
	return nil
}

// SHA256Of is the checksum of a file's content, in hexadecimal digits.
func SHA256Of(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// TemporaryName is where a file is written before it gets its name: beside it, and hidden, so that PVE does not list it (pve-storage
// Plugin.pm get_subdir_files). It follows from the content, so what a write has left that was cut short is written over by the next try.
func TemporaryName(name string, data []byte) string {
	return path.Join(path.Dir(name), "."+path.Base(name)+"."+SHA256Of(data)[:16]+".tmp")
}

// put writes a file under its temporary name, and has it given its own by finish. What it has written it takes away again where that
// does not come about; what it cannot is named.
func (s *Shell) put(ctx context.Context, op, node, name string, data []byte, mode fs.FileMode,
	finish func(c *sftp.Client, temporary string) error) error {
	temporary := TemporaryName(name, data)
	written := false
	err := s.transfer(ctx, transfer{op: op, node: node}, func(c *sftp.Client) error {
		written = true
		err := write(c, temporary, data, mode)
		if err == nil {
			err = finish(c, temporary)
		}
		if err != nil {
			gone := c.Remove(temporary)
			written = gone != nil && !errors.Is(gone, fs.ErrNotExist)
		}
		return err
	})
	if err == nil || !written {
		return err
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Timeout)
	defer cancel()
	left := s.transfer(clean, transfer{op: "remove " + temporary, node: node, again: true},
		func(c *sftp.Client) error { return c.Remove(temporary) })
	if left != nil && !errors.Is(left, fs.ErrNotExist) {
		return fmt.Errorf("%w; %s may be left on node %s: %w", err, temporary, node, left)
	}
	return err
}

// write makes a file that holds exactly data. It does not begin by emptying what is there: somebody else may be writing the same, and
// about to rename it.
func write(c *sftp.Client, name string, data []byte, mode fs.FileMode) error {
	file, err := c.OpenFile(name, os.O_WRONLY|os.O_CREATE)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, bytes.NewReader(data))
	if err == nil {
		err = file.Truncate(int64(len(data)))
	}
	if err == nil {
		err = file.Chmod(mode)
	}
	if _, ok := c.HasExtension("fsync@openssh.com"); ok && err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
