package file

import (
	"bytes"
	"context"
	"crypto/md5"  //nolint:gosec // for checksums that publishers give; it secures nothing here
	"crypto/sha1" //nolint:gosec // likewise
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"time"
)

// Source is a file of this machine, or content that the provider has in memory.
type Source struct {
	Path     string
	Size     int64
	Changed  time.Time
	Checksum Checksum
	// Data is the content, if the provider made it itself. There is no file then, and Path is only a name for messages.
	Data []byte

	head []byte // the first bytes of a file that has been read
}

// Of returns a Source for content in memory, with its SHA-256.
func Of(name string, data []byte) *Source {
	sum := sha256.Sum256(data)
	return &Source{Path: name, Size: int64(len(data)), Checksum: Checksum{Algorithm: "sha256",
		Value: hex.EncodeToString(sum[:])}, Data: data}
}

func (s *Source) open() (io.ReadCloser, error) {
	if s.Data != nil {
		return io.NopCloser(bytes.NewReader(s.Data)), nil
	}
	return os.Open(s.Path)
}

// hashers returns the hash functions by PVE's name of the algorithm.
func hashers() map[string]func() hash.Hash {
	return map[string]func() hash.Hash{"md5": md5.New, "sha1": sha1.New, "sha224": sha256.New224, "sha256": sha256.New,
		"sha384": sha512.New384, "sha512": sha512.New}
}

// sourceAt looks up a file of this machine, without its checksum. The error of a file that does not exist is a
// *MissingError.
func sourceAt(path, algorithm string) (Source, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Source{}, &MissingError{Path: path}
	case err != nil:
		return Source{}, err
	case !info.Mode().IsRegular():
		return Source{}, fmt.Errorf("%s is no file", path)
	case info.Size() == 0:
		return Source{}, fmt.Errorf("%s is empty", path)
	}
	return Source{Path: path, Size: info.Size(), Changed: info.ModTime(), Checksum: Checksum{Algorithm: algorithm}}, nil
}

// MissingError means that a file does not exist on this machine.
type MissingError struct{ Path string }

// Error names the file.
func (m *MissingError) Error() string {
	return fmt.Sprintf("There is no file %s on this machine", m.Path)
}

// SumError means that a file of this machine has another checksum than the configuration demands.
type SumError struct {
	Path       string
	Wanted, Is Checksum
}

// Error names both checksums.
func (s *SumError) Error() string {
	return fmt.Sprintf("%s has the %s checksum %s, not %s", s.Path, s.Is.Algorithm, s.Is.Value, s.Wanted.Value)
}

// read reads the file, for its checksum and its first bytes.
func (s *Source) read(ctx context.Context) error {
	file, err := os.Open(s.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	sum, head := hashers()[s.Checksum.Algorithm](), &bytes.Buffer{}
	from := &bounded{ctx: ctx, from: file}
	_, err = io.CopyN(io.MultiWriter(sum, head), from, headSize)
	if err == nil {
		_, err = io.CopyBuffer(sum, from, make([]byte, 256<<10))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", s.Path, err)
	}
	s.Checksum.Value, s.head = hex.EncodeToString(sum.Sum(nil)), head.Bytes()
	return nil
}

// bounded is a reader that ends with a context.
type bounded struct {
	ctx  context.Context //nolint:containedctx // it lives as long as one copy
	from io.Reader
}

// Read reads from the file, unless the context has ended.
func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.from.Read(p)
}
