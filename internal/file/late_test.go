package file

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// slowLine is a connection on which something happens in the middle of an upload.
type slowLine struct {
	net.Conn
	sent   int
	middle func()
}

func (s *slowLine) Write(p []byte) (int, error) {
	if s.sent += len(p); s.sent > 300<<10 {
		s.middle()
	}
	return s.Conn.Write(p)
}

// TestUploadOverwritesNoFileThatHasCome: while a run uploads a file, another run has put the same file there, and its
// VM is being made of it. PVE would copy ours over it in its place ("cp", pve-storage API2/Storage/Status.pm upload),
// and the VM would get a part of it. So the upload ends before its last byte, and the file is used as it is. A part of
// one, or another, is refused.
func TestUploadOverwritesNoFileThatHasCome(t *testing.T) {
	data := bytes.Repeat([]byte("an image "), 100_000)
	source := Of("disc.iso", data)
	for name, c := range map[string]struct {
		size int64
		want string
	}{
		"the same": {int64(len(data)), ""}, "a part": {1000, "it is another file, or a part of one"},
	} {
		sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sim.Close)
		spec := Spec{Node: "pve1", Storage: "local", Content: ISO, Name: "disc-" + source.Checksum.Value[:12] + ".iso",
			Source: source}
		come := sync.OnceFunc(func() {
			sim.Advance(time.Minute)
			w := sim.World()
			w.Lock()
			defer w.Unlock()
			w.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "iso/" + spec.Name, Content: "iso", Format: "iso",
				Size: c.size, Data: "theirs", Raw: data[:c.size]})
		})
		here := clock.Client{Cluster: sim.World().Clock}
		api, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(), Clock: here,
			APIToken: sim.Credentials().Token,
			DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := sim.DialTLSContext(ctx, network, address)
				return &slowLine{Conn: conn, middle: come}, err
			}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(api.Close)
		jobs := request.New(api, here)
		made, _, err := New(jobs, destroy.New(jobs, guest.New(jobs), nil).Guard, nil).Create(t.Context(), spec)
		var said string
		if err != nil {
			said = err.Error()
		}
		if made.Made || (err != nil) != (c.want != "") || !strings.Contains(said, c.want) {
			t.Errorf("%s: owned %t, %v", name, made.Made, err)
		}
		if errors.Is(err, context.Canceled) {
			t.Errorf("%s: it says that it was interrupted: %v", name, err)
		}
		w := sim.World()
		w.Lock()
		if v := w.Volume("pve1", spec.Volume()); v == nil || v.Data != "theirs" {
			t.Errorf("%s: the other run's file was written over", name)
		}
		w.Unlock()
	}
}

// TestDownloadOfAFileThatHasCome: after the look the file comes, as by the task of a run that was killed, and PVE
// refuses the download. The error is that of a file which was there before, with the ways out: PVE compares the file
// with a checksum that is that of the compressed one.
func TestDownloadOfAFileThatHasCome(t *testing.T) {
	data := []byte("an image of some bytes")
	sum := Of("disc", []byte("the file at the address")).Checksum
	for name, c := range map[string]struct {
		checksum    Checksum
		compression string
		path, says  string
	}{
		"compressed":       {sum, "gz", "url", "the checksum is that of the compressed file, and PVE keeps none"},
		"no checksum":      {Checksum{}, "", "url", "Whether it is the right one cannot be told without a checksum"},
		"another checksum": {sum, "", "checksum", "It has another checksum"},
	} {
		sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1"}, Web: web("the file at the address")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sim.Close)
		spec := Spec{Node: "pve1", Storage: "local", Content: ISO, Name: "disc-0123456789ab.iso",
			URL: "http://mirror.example/disc", Checksum: c.checksum, Compression: c.compression}
		come := sync.OnceFunc(func() {
			w := sim.World()
			w.Lock()
			defer w.Unlock()
			w.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "iso/" + spec.Name, Content: "iso", Format: "iso",
				Size: int64(len(data)), Data: "theirs", Raw: data})
		})
		here := clock.Client{Cluster: sim.World().Clock}
		api, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(), Clock: here,
			APIToken: sim.Credentials().Token, DialTLSContext: sim.DialTLSContext,
			Trace: func(_ context.Context, message string, fields map[string]string) {
				if message == "PVE request" && strings.HasSuffix(fields["path"], "/content") {
					come()
				}
			}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(api.Close)
		jobs := request.New(api, here)
		_, _, err = New(jobs, destroy.New(jobs, guest.New(jobs), nil).Guard, nil).Create(t.Context(), spec)
		var at *guest.FieldError
		if !errors.As(err, &at) || at.Path != c.path || !strings.Contains(at.Detail, c.says) {
			t.Errorf("%s: %v", name, err)
		}
		w := sim.World()
		w.Lock()
		if v := w.Volume("pve1", spec.Volume()); v == nil || v.Data != "theirs" {
			t.Errorf("%s: the other run's file is gone", name)
		}
		w.Unlock()
	}
}
