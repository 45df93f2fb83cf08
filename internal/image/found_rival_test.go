package image

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/job"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/remove"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/tx"
)

// web serves the same few bytes under each address.
type web []byte

func (w web) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{Status: "200 OK", StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: int64(len(w)),
		Body: io.NopCloser(bytes.NewReader(w)), Request: r}, nil
}

// TestFoundImageOfARival: two runs want the same file, whose name is the same since its content is. The task of the one is killed; the
// whole file that is there then is the other's, and stays: it is named, without a command that removes it.
func TestFoundImageOfARival(t *testing.T) {
	data := []byte("an image of some bytes")
	for _, way := range []string{"download-url", "upload"} {
		sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1"}, Web: web(data)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sim.Close)
		source := Of("disc", data)
		spec := Spec{Node: "pve1", Storage: "local", Content: "iso", URL: "http://mirror.example/disc.iso", Checksum: source.Checksum}
		if way == "upload" {
			spec.URL, spec.Source = "", source
		}
		if spec.Name, err = FileName(spec.Content, "disc.iso", source.Checksum); err != nil {
			t.Fatal(err)
		}
		came := false
		here, cred := clock.Client{Cluster: sim.World().Clock}, sim.Credentials()
		api, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(), DialContext: sim.DialContext, Clock: here,
			APIToken: cred.Token, Trace: func(_ context.Context, message string, fields map[string]string) {
				if message != "PVE request" || !strings.HasSuffix(fields["path"], "/"+way) {
					return
				}
				w := sim.World()
				w.Lock()
				defer w.Unlock()
				came = true
				w.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "iso/" + spec.Name, Content: "iso", Format: "iso",
					Size: int64(len(data)),
					Data: "theirs", Raw: data})
			}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(api.Close)
		sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost}, Phase: fault.KillTask}})
		jobs := job.New(api, here)
		_, _, err = New(jobs, remove.New(jobs, guest.New(jobs), nil)).Create(t.Context(), spec)
		var failed *tx.Error
		if !came || sim.FaultsFired() != 1 || !errors.As(err, &failed) {
			t.Fatalf("%s: the rival came: %t, %d faults, %v", way, came, sim.FaultsFired(), err)
		}
		w := sim.World()
		w.Lock()
		theirs := w.Volume("pve1", spec.Volume())
		w.Unlock()
		if theirs == nil || theirs.Data != "theirs" {
			t.Errorf("%s: the rival's file is gone: %v", way, err)
		}
		named := false
		for _, left := range failed.Left {
			named = named || left.ID == spec.Volume() && left.Command == ""
		}
		if !named {
			t.Errorf("%s: it is not named: %v", way, failed.Left)
		}
	}
}
