package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
)

// downloadLimit is how much of a file the simulator is willing to read.
const downloadLimit = 256 << 20

// errOutside is what becomes of a connection to another machine: nothing, unless Config.Internet allows it.
var errOutside = errors.New("the simulated nodes reach this machine only")

// client is what the simulated nodes fetch with. Without Config.Internet it connects to the loopback interface, and
// asks no name server. With Config.Web it connects nowhere.
func client(e *engine.Engine) *http.Client {
	if e.Config.Web != nil {
		return &http.Client{Transport: e.Config.Web}
	}
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy
	if !e.Config.Internet {
		var dialer net.Dialer
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			if host == "localhost" {
				host = "127.0.0.1"
			}
			if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
				return nil, errOutside
			}
			return dialer.DialContext(ctx, network, net.JoinHostPort(host, port))
		}
	}
	return &http.Client{Timeout: time.Minute, Transport: transport}
}

// fetched is what a server has for a download.
type fetched struct {
	code   int
	status string
	length int64 // -1: not known
	header http.Header
	body   []byte
}

// get sends a request with the world's mutex released meanwhile, and reads the body.
func get(e *engine.Engine, method, address string) (*fetched, error) {
	e.World.Unlock()
	defer e.World.Lock()
	q, err := http.NewRequestWithContext(e.Ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Accept-Encoding", "identity") // else a length is that of the compressed form, or missing
	resp, err := client(e).Do(q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, downloadLimit))
	return &fetched{code: resp.StatusCode, status: resp.Status, length: resp.ContentLength, header: resp.Header,
		body: data}, err
}

// fetch gets a file over HTTP and logs what wget says: it writes to temporary, with the progress bar of giga dots.
func fetch(w *engine.Worker, address, temporary string) ([]byte, error) {
	stamp := func() string { return w.W.Clock.Now().UTC().Format(time.DateTime) }
	w.Logf("--%s--  %s", stamp(), address)
	got, err := get(w.Engine, http.MethodGet, address)
	host := hostPort(address)
	var op *net.OpError
	switch {
	case errors.Is(err, errOutside):
		w.Logf("%s; downloads from elsewhere have to be allowed when it is started", errOutside)
		return nil, perl.Die("Connecting to %s... failed: Network is unreachable.", host)
	case errors.As(err, &op) && errors.Is(err, syscall.ECONNREFUSED):
		return nil, perl.Die("Connecting to %s... failed: Connection refused.", op.Addr)
	case err != nil:
		return nil, perl.Die("%s", unwrapURL(err))
	}
	w.Logf("Connecting to %s... connected.", host)
	w.Logf("HTTP request sent, awaiting response... %s", got.status)
	if got.code != http.StatusOK {
		w.Logf("%s ERROR %d: %s.", stamp(), got.code, http.StatusText(got.code))
		return nil, perl.Die("exit code 8") // wget's last line is an empty one, so that run_command has no text
	}
	length := "unspecified"
	if got.length >= 0 {
		length = strconv.FormatInt(got.length, 10) + wgetSize(got.length)
	}
	w.Logf("Length: %s [%s]", length, got.header.Get("Content-Type"))
	w.Logf("Saving to: '%s'", temporary)
	w.Logf("     0K                                    100%%  100M=0s")
	w.Logf("%s (100 MB/s) - '%s' saved [%d/%d]", stamp(), temporary, len(got.body), len(got.body))
	return got.body, nil
}

// wgetSize is how wget prints a size for people.
func wgetSize(n int64) string {
	if n < 1024 {
		return ""
	}
	value := float64(n)
	for _, unit := range "KMGTP" {
		if value /= 1024; value < 1024 {
			digits := 0
			if value < 10 {
				digits = 1
			}
			return fmt.Sprintf(" (%.*f%c)", digits, value, unit)
		}
	}
	return ""
}
