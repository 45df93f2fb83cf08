package pve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Download starts a node's download of a file onto one of its storages; p has url, content, filename and what else PVE takes. A file of
// that name is only replaced by nothing: with a checksum PVE looks whether it has the file already, without one it refuses (pve-common
// Tools.pm download_file_from_url). It needs Datastore.AllocateTemplate on the storage, and Sys.AccessNetwork on the node, or Sys.Audit
// and Sys.Modify on / (pve-storage API2/Storage/Status.pm download_url).
func (c *Client) Download(ctx context.Context, node, storage string, p Params) (UPID, error) {
	op := "download " + p["filename"] + " to storage " + storage + " on node " + node
	return c.start(ctx, op, http.MethodPost, "/nodes/"+node+"/storage/"+storage+"/download-url", p)
}

// HadAlready tells whether the log of a download says that the file was there with the right checksum, and nothing was downloaded
// (pve-common Tools.pm download_file_from_url).
func HadAlready(log []string) bool {
	return slices.ContainsFunc(log, func(line string) bool {
		return strings.Contains(line, "OK, got correct file already, no "+
			"need to download")
	})
}

// TargetOf is the path of the file that a download or an upload makes, by the log of its task; "" where it does not say (pve-common
// Tools.pm download_file_from_url; pve-storage API2/Storage/Status.pm upload).
func TargetOf(log []string) string {
	for _, line := range log {
		if _, path, ok := strings.Cut(line, "target file: "); ok {
			return path
		}
		if rest, ok := strings.CutPrefix(line, "downloading "); ok {
			if i := strings.LastIndex(rest, " to "); i >= 0 {
				return rest[i+len(" to "):]
			}
		}
	}
	return ""
}

// LeftTemporary tells whether the log of a download or an upload says that its worker could not remove what it had of the file (the same
// places).
func LeftTemporary(log []string) bool {
	return slices.ContainsFunc(log, func(line string) bool {
		return strings.Contains(line, "could not cleanup temporary file") || strings.Contains(line, "unable to clean up temporary file") ||
			strings.HasPrefix(line, "cleanup failed: ")
	})
}

// UploadedTo is the path where the node that took an upload keeps it until it is copied; "" where the log does not say (pve-storage
// API2/Storage/Status.pm upload).
func UploadedTo(log []string) string {
	for _, line := range log {
		if path, ok := strings.CutPrefix(line, "starting file import from: "); ok {
			return path
		}
	}
	return ""
}

// Upload is a file of this machine on its way to a storage.
type Upload struct {
	Node, Storage string
	// Content is iso, import or vztmpl; Filename the name that the file is to have.
	Content, Filename string
	// Checksum is verified by PVE before the file is put in its place; Algorithm is sha256 or another that PVE knows.
	Checksum, Algorithm string
	Size                int64
	// Open gives the bytes, again for each try.
	Open func() (io.ReadCloser, error)
	// Sent, if set, is told how many of them have left this machine.
	Sent func(ctx context.Context, bytes int64)
}

// Upload sends a file and starts the task that verifies it and puts it in its place. **A file of that name is overwritten**
// (pve-storage API2/Storage/Status.pm upload). The file passes through memory in small pieces, and through /var/tmp of the node
// that the endpoint names.
//
// PVE looks at the request when its last byte is there (pve-http-server AnyEvent.pm file_upload_multipart), so one that broke
// off before has done nothing, and the error is not Ambiguous.
func (c *Client) Upload(ctx context.Context, u Upload) (UPID, error) {
	head, tail, boundary, err := u.frame()
	op := "upload " + u.Filename + " to storage " + u.Storage + " on node " + u.Node
	if err != nil {
		return "", &Error{Op: op, Kind: Invalid, Message: err.Error(), Err: err}
	}
	r := &request{
		op: op, method: http.MethodPost, path: "/nodes/" + u.Node + "/storage/" + u.Storage + "/upload",
		params: Params{"content": u.Content, "filename": u.Filename, "checksum": u.Checksum, "checksum-algorithm": u.Algorithm},
		file: &fileBody{contentType: "multipart/form-data; boundary=" + boundary, length: int64(len(head)) + u.Size + int64(len(tail)),
			open: func(ctx context.Context) (io.Reader, io.Closer, error) {
				file, err := u.Open()
				if err != nil {
					return nil, nil, err
				}
				counted := &countingReader{from: io.LimitReader(file, u.Size), tell: func(n int64) {
					if u.Sent != nil {
						u.Sent(ctx, n)
					}
				}}
				return io.MultiReader(bytes.NewReader(head), counted, bytes.NewReader(tail)), file, nil
			}},
	}
	env, err := c.do(ctx, r)
	if err != nil {
		return "", err
	}
	var text flexString
	if err := json.Unmarshal(env.Data, &text); err != nil {
		return "", c.badAnswer(r, http.StatusOK, err)
	}
	upid, err := ParseUPID(string(text))
	if err != nil {
		return "", c.badAnswer(r, http.StatusOK, err)
	}
	return upid, nil
}

// frame is what goes before and after the bytes of the file. PVE wants its fields in this order, and the file last, in a field that is
// called "filename" (pve-http-server AnyEvent.pm file_upload_multipart).
func (u Upload) frame() (head, tail []byte, boundary string, err error) {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for _, field := range [][2]string{{"content", u.Content}, {"checksum-algorithm", u.Algorithm}, {"checksum", u.Checksum}} {
		if field[1] == "" {
			continue
		}
		if err := form.WriteField(field[0], field[1]); err != nil {
			return nil, nil, "", err
		}
	}
	if strings.ContainsAny(u.Filename, "\"\\\r\n") {
		return nil, nil, "", errors.New("a file cannot be uploaded under a name with a quote, a backslash or a line break")
	}
	if _, err := form.CreateFormFile("filename", u.Filename); err != nil {
		return nil, nil, "", err
	}
	length := b.Len()
	if err := form.Close(); err != nil {
		return nil, nil, "", err
	}
	all := b.Bytes()
	return all[:length:length], all[length:], form.Boundary(), nil
}

// countingReader tells how much was read.
type countingReader struct {
	from io.Reader
	n    int64
	tell func(int64)
}

// Read reads on.
func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if r.n += int64(n); n > 0 {
		r.tell(r.n)
	}
	return n, err
}

// fileBody is a body that is too large to be kept.
type fileBody struct {
	contentType string
	length      int64
	open        func(context.Context) (io.Reader, io.Closer, error)
}

// sending is one try to send a fileBody: how far it came, and when it last went on.
type sending struct {
	io.Reader
	io.Closer
	left  atomic.Int64
	moved atomic.Int64 // in nanoseconds of this machine's clock
}

func (b *fileBody) begin(ctx context.Context) (*sending, error) {
	reader, closer, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	s := &sending{Reader: reader, Closer: closer}
	s.left.Store(b.length)
	s.moved.Store(time.Now().UnixNano())
	return s, nil
}

// Read reads on.
func (s *sending) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.left.Add(-int64(n))
	s.moved.Store(time.Now().UnixNano())
	return n, err
}

// stallTime is how long an upload may stand still.
const stallTime = 2 * time.Minute

// watch cancels an upload that stands still, until the function that it returns is called. What is sent whole is the server's affair,
// and the time for the answer is bounded elsewhere.
func (s *sending) watch(cancel context.CancelCauseFunc) (stop func()) {
	var timer *time.Timer
	timer = time.AfterFunc(stallTime, func() {
		still := time.Since(time.Unix(0, s.moved.Load()))
		switch {
		case s.left.Load() == 0:
		case still >= stallTime:
			cancel(noAnswerError{after: stallTime})
		default:
			timer.Reset(stallTime - still)
		}
	})
	return func() { timer.Stop() }
}
