package handle

import (
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	dispositionName = regexp.MustCompile(`filename="([^"]*)"|filename=([^;]*)`)
	addressName     = regexp.MustCompile(`^[^?]+/([^?/]*)(?:\?.*)?$`)
)

// urlMetadata asks the server of a URL what a download would bring: name, size and type (pve-manager API2/Nodes.pm,
// query_url_metadata). "verify-certificates" is not heeded: certificates are verified.
func urlMetadata(r *Request) (any, error) {
	address := r.Params["url"]
	head, err := r.head(address)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	name := ""
	if m := dispositionName.FindStringSubmatch(head.Get("Content-Disposition")); m != nil {
		name = m[1] + m[2]
	} else if m := addressName.FindStringSubmatch(address); m != nil {
		name = m[1]
	}
	if name != "" {
		out["filename"] = name
	}
	if n, err := strconv.ParseInt(head.Get("Content-Length"), 10, 64); err == nil && n > 0 {
		out["size"] = n
	}
	if typ := head.Get("Content-Type"); typ != "" {
		if media, _, err := mime.ParseMediaType(typ); err == nil {
			typ = media
		}
		out["mimetype"] = typ
	}
	return out, nil
}

// head sends the HEAD request, with the world's mutex released meanwhile.
func (r *Request) head(address string) (http.Header, error) {
	r.Server.world.Unlock()
	defer r.Server.world.Lock()
	q, err := http.NewRequestWithContext(r.Server.ctx, http.MethodHead, address, nil)
	if err != nil {
		return nil, Die("invalid server response: '400 %s'", err)
	}
	q.Header.Set("Accept-Encoding", "identity") // else the length is that of the compressed form, or missing
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(q)
	if err != nil { // libwww-perl words its own failures as a 500
		return nil, Die("invalid server response: '500 %s'", strings.TrimPrefix(err.Error(), `Head "`+address+`": `))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, Die("invalid server response: '%s'", resp.Status)
	}
	return resp.Header, nil
}
