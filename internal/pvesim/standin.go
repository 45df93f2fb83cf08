package pvesim

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"net/netip"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// ForGuides makes the options those of a cluster on which every guide of the provider works as it stands, offline: the
// default world, furnished, whose nodes get a stand-in for whatever they download from other machines.
func (o Options) ForGuides() Options {
	o.World = state.Default(o.nodes())
	o.World.Furnish()
	o.Web = standIn{local: &http.Transport{DisableKeepAlives: true}}
	return o
}

// standIn answers requests to other machines with the stand-in image, and passes on those to this one.
type standIn struct{ local http.RoundTripper }

// StandIn is a disk image of 2 GiB in qcow2 format, of which there is only the header.
func StandIn() []byte {
	image := append([]byte("QFI\xfb\x00\x00\x00\x03"), make([]byte, 4088)...)
	binary.BigEndian.PutUint64(image[24:], 2<<30)
	return image
}

// RoundTrip answers a request.
func (s standIn) RoundTrip(r *http.Request) (*http.Response, error) {
	host := r.URL.Hostname()
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.IsLoopback() {
		return s.local.RoundTrip(r)
	}
	header := http.Header{"Content-Type": {"application/x-stand-in-of-the-simulator"}}
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", ContentLength: int64(len(StandIn())),
		Header: header,
		Body:   io.NopCloser(bytes.NewReader(StandIn())), Request: r}, nil
}
