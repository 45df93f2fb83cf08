package proxy

import (
	"bytes"
	"encoding/hex"
	"hash"
	"io"
	"mime/multipart"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
)

// keptUpload is how much of an upload is kept. Of a larger file it is known how long it is, how it begins and what its
// checksums are.
const keptUpload = 1 << 20

// readUpload reads the fields into params and returns the file part, which the API wants last and named "filename". It
// is read as it comes, and not kept. whole is false where the connection ended before the body did (pve-http-server
// AnyEvent.pm file_upload_multipart).
func (q *httpRequest) readUpload(params map[string]string, boundary string) (up *engine.Upload, whole bool) {
	body := &io.LimitedReader{R: q.in, N: q.length()}
	parts := multipart.NewReader(body, boundary)
	for {
		p, err := parts.NextPart()
		if err != nil {
			break
		}
		if p.FormName() == "filename" && p.FileName() != "" {
			params["filename"] = p.FileName()
			if up, err = receive(p, params["checksum-algorithm"]); err != nil {
				return nil, false
			}
			break
		}
		data, err := io.ReadAll(io.LimitReader(p, BodyLimit))
		if err != nil {
			break
		}
		addParam(params, p.FormName(), string(data))
	}
	_, err := io.Copy(io.Discard, body)
	return up, err == nil && body.N == 0
}

// receive reads a file.
func receive(p *multipart.Part, algorithm string) (*engine.Upload, error) {
	up := &engine.Upload{Filename: p.FileName(), Sums: map[string]string{}}
	hashers := map[string]hash.Hash{"sha256": perl.NewHash("sha256")}
	if algorithm != "" {
		hashers[algorithm] = perl.NewHash(algorithm)
	}
	var to []io.Writer
	for _, h := range hashers {
		to = append(to, h)
	}
	var begin bytes.Buffer
	sums := io.MultiWriter(to...)
	_, err := io.CopyN(io.MultiWriter(&begin, sums), p, keptUpload)
	rest := int64(0)
	if err == nil {
		rest, err = io.Copy(sums, p)
	}
	if err != nil && err != io.EOF { //nolint:errorlint // as io returns it
		return nil, err
	}
	up.Data, up.Size = begin.Bytes(), int64(begin.Len())+rest
	if rest > 0 {
		up.Data = up.Data[: 64<<10 : 64<<10]
	}
	for name, h := range hashers {
		up.Sums[name] = hex.EncodeToString(h.Sum(nil))
	}
	return up, nil
}
