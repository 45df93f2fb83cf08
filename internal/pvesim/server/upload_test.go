package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
)

// zeros is an endless file of nothing.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// uploadRequest is an upload of a file of zeros, with a checksum that may be "".
func (g *rig) uploadRequest(ctx context.Context, name, sum string, size int64,
	body func(io.Reader) io.Reader) *http.Request {
	t := g.t
	t.Helper()
	var frame bytes.Buffer
	form := multipart.NewWriter(&frame)
	fields := [][2]string{{"content", "import"}}
	if sum != "" {
		fields = append(fields, [2]string{"checksum-algorithm", "sha256"}, [2]string{"checksum", sum})
	}
	for _, f := range fields {
		if err := form.WriteField(f[0], f[1]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := form.CreateFormFile("filename", name); err != nil {
		t.Fatal(err)
	}
	head := bytes.Clone(frame.Bytes())
	frame.Reset()
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	length := int64(len(head)) + size + int64(frame.Len())
	file := io.LimitReader(zeros{}, size)
	all := io.MultiReader(bytes.NewReader(head), file, bytes.NewReader(frame.Bytes()))
	if body != nil {
		all = body(all)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sim/api2/json/nodes/pve1/storage/local/upload", all)
	if err != nil {
		t.Fatal(err)
	}
	q.ContentLength = length
	q.Header.Set("Authorization", "PVEAPIToken=root@pam!tf="+g.w.Tokens["root@pam!tf"].Secret)
	q.Header.Set("Content-Type", form.FormDataContentType())
	return q
}

// TestUploadIsNotKept: of a large file the world has the size and the checksum, and not its bytes; a wrong checksum
// stores nothing.
func TestUploadIsNotKept(t *testing.T) {
	g := newRig(t, nil)
	const size = 40 << 20
	sum := perl.NewHash("sha256")
	_, _ = io.CopyN(sum, zeros{}, size)
	right := fmt.Sprintf("%x", sum.Sum(nil))
	for name, want := range map[string]string{"right": right, "wrong": strings.Repeat("0", 64)} {
		r := g.send(g.uploadRequest(t.Context(), name+".raw", want, size, nil))
		upid, _ := r.body.Data.(string)
		v := g.w.Volume("pve1", "local:import/"+name+".raw")
		if name == "wrong" {
			if v != nil || !strings.HasPrefix(g.w.Tasks[upid].ExitStatus, "checksum mismatch: got '"+right) {
				t.Errorf("%s: %v, %s", name, v, g.w.Tasks[upid].ExitStatus)
			}
			continue
		}
		if v == nil || v.Size != size || v.Raw != nil || v.Data != "sha256:"+right {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if left := g.w.Nodes["pve1"].Files; len(left) > 0 {
		t.Errorf("left on the node: %v", left)
	}
}

// TestUploadCut: an upload that breaks off before its last byte is ignored.
func TestUploadCut(t *testing.T) {
	g := newRig(t, nil)
	cut := func(all io.Reader) io.Reader { return io.LimitReader(all, 1<<20) }
	q := g.uploadRequest(t.Context(), "cut.raw", "", 4<<20, cut)
	if r, err := g.try(q); err == nil {
		t.Errorf("answered %d", r.status)
	}
	if v := g.w.Volume("pve1", "local:import/cut.raw"); v != nil || len(g.w.Tasks) > 0 {
		t.Errorf("%v, tasks %v", v, g.w.Tasks)
	}
}

// TestDownloadUnpacks: compressed ISO content is unpacked, other content refused, and a killed download leaves
// its temporary file, which the listing of the import directory shows as the file that it was to become.
func TestDownloadUnpacks(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("an image"))
	_ = z.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = w.Write(packed.Bytes())
	}))
	defer web.Close()
	g := newRig(t, nil)
	const path = "/storage/local/download-url"
	g.steps([]step{
		{"", "POST", path, "content=iso&compression=gz&filename=a.iso&url=" + web.URL, "OK"},
		{"", "POST", path, "content=iso&compression=bz2&filename=b.iso&url=" + web.URL, "command 'zcat' failed: exit code 1"},
		{"", "POST", path, "content=import&compression=gz&filename=a.raw&url=" + web.URL,
			"decompression not supported for import"},
	})
	if v := g.w.Volume("pve1", "local:iso/a.iso"); v == nil || string(v.Raw) != "an image" {
		t.Errorf("unpacked to %v", v)
	}
	if left := g.w.Nodes["pve1"].Files; len(left) > 0 {
		t.Errorf("left on the node: %v", left)
	}
}
