package storage

import (
	"errors"
	"mime"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"syscall"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
)

var (
	dispositionName = regexp.MustCompile(`filename="([^"]*)"|filename=([^;]*)`)
	addressName     = regexp.MustCompile(`^[^?]+/([^?/]*)(?:\?.*)?$`)
)

// URLMetadata asks the server of a URL what a download would bring: name, size and type (pve-manager API2/Nodes.pm,
// query_url_metadata). "verify-certificates" is not heeded: certificates are verified.
func URLMetadata(r *engine.Request) (any, error) {
	address := r.Params["url"]
	head, err := head(r, address)
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

// head sends the HEAD request. libwww-perl words its own failures as a 500.
func head(r *engine.Request, address string) (http.Header, error) {
	got, err := get(r.Engine, http.MethodHead, address)
	switch {
	case errors.Is(err, errOutside):
		return nil, perl.Die("invalid server response: '500 Can't connect to %s (Network is unreachable)'", hostPort(address))
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, perl.Die("invalid server response: '500 Can't connect to %s (Connection refused)'", hostPort(address))
	case err != nil:
		return nil, perl.Die("invalid server response: '500 %s'", unwrapURL(err))
	case got.code != http.StatusOK:
		return nil, perl.Die("invalid server response: '%s'", got.status)
	}
	return got.header, nil
}

// hostPort is where a URL leads to.
func hostPort(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	if u.Port() != "" {
		return u.Host
	}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// unwrapURL is an error without the method and address that net/http puts in front.
func unwrapURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
