package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
)

// errHasCome says that an upload was broken off before its end, so that nothing was stored.
var errHasCome = errors.New("a file of the same name has come while this one was uploaded. The upload was broken " +
	"off, since PVE would have written over that file")

// upload sends the file. PVE writes it over a file that is there, in its place, also while a VM is made of that (cp,
// pve-storage API2/Storage/Status.pm upload). An upload takes its time, so before its last byte it looks again.
func (t *transfer) upload(ctx context.Context) (pve.UPID, error) {
	source := t.spec.Source
	said := t.clock.Now()
	sending, breakOff := context.WithCancelCause(ctx)
	defer breakOff(nil)
	upid, err := t.api.Storage(t.spec.Node, t.spec.Storage).Upload(sending, pve.Upload{Content: t.spec.Content,
		Filename: t.spec.Name,
		Checksum: source.Checksum.Value, Algorithm: source.Checksum.Algorithm, Size: source.Size,
		Open: func() (io.ReadCloser, error) {
			from, err := source.open()
			return &lookingReader{ReadCloser: from, left: source.Size, look: func() error {
				err := t.lookAgain(sending)
				if err != nil {
					breakOff(err)
				}
				return err
			}}, err
		},
		Sent: func(ctx context.Context, bytes int64) {
			if now := t.clock.Now(); t.runner.Log != nil && (bytes == source.Size || now.Sub(said) >= progressTime) {
				said = now
				t.runner.Log(ctx, fmt.Sprintf("uploading %s to %s on node %s", source.Path, t.spec.Volume(), t.spec.Node),
					map[string]string{"bytes": fmt.Sprint(bytes), "of": fmt.Sprint(source.Size),
						"percent": fmt.Sprint(bytes * 100 / source.Size)})
			}
		}})
	if cause := context.Cause(sending); err != nil && ctx.Err() == nil && cause != nil {
		err = cause
	}
	return upid, err
}

// progressTime is the interval at which the log reports the progress of an upload.
const progressTime = 10 * time.Second

// lookLife is how long the look before an upload serves its end.
const lookLife = 2 * time.Second

// lookAgain is errHasCome if a file of the name has come since the first look.
func (t *transfer) lookAgain(ctx context.Context) error {
	if pve.Elapsed(t.looked, t.clock.Now()) < lookLife {
		return nil
	}
	found, err := t.find(ctx)
	if err == nil && len(t.since(found)) > 0 {
		err = errHasCome
	}
	return err
}

// lookingReader calls look before it gives the last byte. Without that byte PVE stores nothing.
type lookingReader struct {
	io.ReadCloser
	left int64
	look func() error
}

// Read reads on.
func (l *lookingReader) Read(p []byte) (int, error) {
	if l.left > 0 && int64(len(p)) >= l.left {
		if err := l.look(); err != nil {
			return 0, err
		}
	}
	n, err := l.ReadCloser.Read(p)
	l.left -= int64(n)
	return n, err
}
