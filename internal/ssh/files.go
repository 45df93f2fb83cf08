package ssh

import (
	"bytes"
	"context"
	"crypto/rand"
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

// maxFile is the number of bytes that are read of a file. PVE itself reads no more of a snippet than 1 MiB (qemu-server
// QemuServer/Cloudinit.pm read_cloudinit_snippets_file).
const maxFile = 4 << 20

// VolumePath returns the path of a file volume on a node, whether the file exists or not (pvesm path).
func (s *Shell) VolumePath(ctx context.Context, node, volid string) (string, error) {
	return s.volumePath(ctx, "find the path of volume "+volid, node, volid)
}

// ReadFile reads a file of a node, of at most maxFile bytes. The error of a file that does not exist is fs.ErrNotExist.
func (s *Shell) ReadFile(ctx context.Context, node, name string) (data []byte, err error) {
	err = s.transfer(ctx, "read "+name, node, func(c *sftp.Client) error {
		data, err = read(c, name)
		return err
	})
	return data, err
}

// read reads a file. A symbolic link is an error: the server would follow it as root, so a user who may write to the
// directory could have any file of the node shown.
func read(c *sftp.Client, name string) ([]byte, error) {
	info, err := c.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is not a regular file (%s); it was not touched", info.Mode())
	}
	file, err := c.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it is larger than %d bytes; it was not touched", maxFile)
	}
	return data, err
}

// ErrUntold says that the node did not answer any more, so that it is not known whether a file got its name.
var ErrUntold = errors.New("the file may have been written")

// CreateFile makes a file of a node, whole or not at all: no reader sees a part of it. If a file of that name exists,
// CreateFile changes nothing and the error is fs.ErrExist.
func (s *Shell) CreateFile(ctx context.Context, node, name string, data []byte, mode fs.FileMode) error {
	return s.put(ctx, "create "+name, node, name, data, modes{set: mode}, func(c *sftp.Client, temporary string) error {
		if _, missing := c.Lstat(name); missing == nil {
			return fs.ErrExist // another SFTP server might rename over it
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

// ReplaceFile replaces the content of a file of a node, whole or not at all, if its SHA-256 is still the one that the
// caller has seen. It checks that immediately before the write; a different file is a *ChangedError. A file that is
// gone is made again. The mode is set, and of kept those bits as well that the old file has.
func (s *Shell) ReplaceFile(ctx context.Context, node, name, seen string, data []byte, mode, kept fs.FileMode) error {
	return s.put(ctx, "replace "+name, node, name, data, modes{mode, kept}, func(c *sftp.Client, temporary string) error {
		if err := unchanged(c, name, seen); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return c.PosixRename(temporary, name)
	})
}

// RemoveFile removes a file of a node, under the same condition as ReplaceFile. A file that is gone is a success.
func (s *Shell) RemoveFile(ctx context.Context, node, name, seen string) error {
	op := "remove " + name
	if err := refuseWhereReading(ctx, op, node); err != nil {
		return err
	}
	return s.transfer(ctx, op, node, func(c *sftp.Client) error {
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

// ChangedError means that a file has other content than the caller has seen. It was not touched.
type ChangedError struct{ SHA256 string }

// Error gives the present checksum.
func (c *ChangedError) Error() string {
	return "a third party has changed it meanwhile: its sha256 is now " + c.SHA256 + "; it was not touched"
}

func unchanged(c *sftp.Client, name, seen string) error {
	data, err := read(c, name)
	if err != nil {
		return err
	}
	if is := SHA256Of(data); is != seen {
		return &ChangedError{SHA256: is}
	}
	return nil
}

// SHA256Of returns the SHA-256 of data in hexadecimal digits.
func SHA256Of(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// temporaryName returns a name under which a file is written before it gets its own: beside it, and hidden, so that PVE
// does not list it (pve-storage Plugin.pm get_subdir_files). It cannot be guessed, so no third party has a file or a
// link of that name.
func temporaryName(name string) string {
	return path.Join(path.Dir(name), "."+path.Base(name)+"."+rand.Text()+".tmp")
}

// modes are the bits of a file's mode: those that are set, and those that it keeps of the file that it replaces.
type modes struct{ set, kept fs.FileMode }

// of returns the mode of the file that gets a name. It is known before the file is written: a mode that is set by name
// afterwards would be that of another's link.
func (m modes) of(c *sftp.Client, name string) (fs.FileMode, error) {
	if m.kept == 0 {
		return m.set, nil
	}
	info, err := c.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return m.set, nil
	} else if err != nil {
		return 0, err
	}
	return m.set | info.Mode()&m.kept, nil
}

// put writes a file under its temporary name; finish gives it its own. If that fails, put removes the temporary file
// again, or names it. If the answer to the last request of finish is lost, the temporary file tells whether that was
// done: no other party knows its name.
func (s *Shell) put(ctx context.Context, op, node, name string, data []byte, modes modes,
	finish func(c *sftp.Client, temporary string) error) error {
	if err := refuseWhereReading(ctx, op, node); err != nil {
		return err
	}
	temporary := temporaryName(name)
	written, lost := false, false
	err := s.transfer(ctx, op, node, func(c *sftp.Client) error {
		mode, err := modes.of(c, name)
		if err != nil {
			return err
		}
		written = true
		if err = write(c, temporary, data, mode); err == nil {
			err = finish(c, temporary)
			lost = errors.Is(err, sftp.ErrSSHFxConnectionLost)
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
	left := s.transfer(clean, "remove "+temporary, node, func(c *sftp.Client) error { return c.Remove(temporary) })
	if errors.Is(left, fs.ErrNotExist) && lost { // it has got its name, and only the answer was lost
		return nil
	}
	if left != nil && !errors.Is(left, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w; %s may be left on node %s: %w", ErrUntold, err, temporary, node, left)
	}
	return err
}

// write makes a file. It fails if anything has the name, be it a link. The server makes the file by its umask, mostly
// readable for all, so the file gets its mode before its first byte.
func write(c *sftp.Client, name string, data []byte, mode fs.FileMode) error {
	file, err := c.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	if err = file.Chmod(mode); err == nil {
		_, err = io.Copy(file, bytes.NewReader(data))
	}
	if _, ok := c.HasExtension("fsync@openssh.com"); ok && err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
