package file

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
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
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/saga"
)

// web serves the same few bytes under each address.
type web []byte

func (w web) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{Status: "200 OK", StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: int64(len(w)),
		Body: io.NopCloser(bytes.NewReader(w)), Request: r}, nil
}

// TestUndoKeepsTheFileOfARival: two runs want the same file, which has the same name because its content is the same.
// The task of one run is killed. The whole file that is there then belongs to the other run and stays: it is named,
// without a command that removes it.
func TestUndoKeepsTheFileOfARival(t *testing.T) {
	data := []byte("an image of some bytes")
	for _, way := range []string{"download-url", "upload"} {
		sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1"}, Web: web(data)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sim.Close)
		source := Of("disc", data)
		spec := Spec{Node: "pve1", Storage: "local", Content: "iso", URL: "http://mirror.example/disc.iso",
			Checksum: source.Checksum}
		if way == "upload" {
			spec.URL, spec.Source = "", source
		}
		if spec.Name, err = Name(spec.Content, "disc.iso", source.Checksum); err != nil {
			t.Fatal(err)
		}
		came := false
		here, cred := clock.Client{Cluster: sim.World().Clock}, sim.Credentials()
		api, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(),
			DialTLSContext: sim.DialTLSContext, Clock: here,
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
		jobs := request.New(api, here)
		_, _, err = New(jobs, destroy.New(jobs, guest.New(jobs), nil).Guard, nil).Create(t.Context(), spec)
		var failed *saga.Error
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

// TestDownloadsOfRivalsAreNotOwned: two runs download the same file at the same time, and both downloads end well: each
// has renamed its own file over the other's. Neither run may own it, since its destroy would take the file from the
// other run. Of two downloads in turn each run owns its own.
func TestDownloadsOfRivalsAreNotOwned(t *testing.T) {
	data := []byte("an image of some bytes")
	spec := Spec{Node: "pve1", Storage: "local", Content: "iso", URL: "http://mirror.example/disc.iso",
		Checksum: Of("disc", data).Checksum}
	var err error
	if spec.Name, err = Name(spec.Content, "disc.iso", spec.Checksum); err != nil {
		t.Fatal(err)
	}
	for _, atOnce := range []bool{true, false} {
		sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1"}, Web: web(data), TaskTime: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sim.Close)
		here, cred := clock.Client{Cluster: sim.World().Clock}, sim.Credentials()
		run := func(answered func(path string)) *Files {
			api, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(),
				DialTLSContext: sim.DialTLSContext, Clock: here,
				APIToken: cred.Token, Trace: func(_ context.Context, message string, fields map[string]string) {
					if message == "PVE request" {
						answered(fields["path"])
					}
				}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(api.Close)
			jobs := request.New(api, here)
			return New(jobs, destroy.New(jobs, guest.New(jobs), nil).Guard, nil)
		}
		var theirs File
		var theirErr error
		var rival sync.WaitGroup
		sent := make(chan struct{})
		begin := sync.OnceFunc(func() {
			rival.Go(func() {
				theirs, _, theirErr = run(func(path string) {
					if strings.HasSuffix(path, "/download-url") {
						close(sent)
					}
				}).Create(t.Context(), spec)
			})
			<-sent
			if !atOnce {
				return
			}
			for there := false; !there && t.Context().Err() == nil; runtime.Gosched() { // a task stores the file some time after the answer
				w := sim.World()
				w.Lock()
				for _, v := range w.Volumes {
					there = there || v.Volid() == spec.Volume()
				}
				w.Unlock()
			}
		})
		mine := run(func(path string) {
			if atOnce && strings.HasSuffix(path, "/download-url") {
				w := sim.World()
				w.Lock()
				for key, v := range w.Volumes {
					if v.Volid() == spec.Volume() { // the task may have stored it already
						delete(w.Volumes, key)
					}
				}
				w.Unlock()
				begin()
			}
		})
		ours, warnings, err := mine.Create(t.Context(), spec)
		if err == nil && !atOnce {
			if !ours.Made {
				t.Error("a file without a rival is not owned")
			}
			err = mine.Delete(t.Context(), ours.MadeFile)
			sim.Advance(time.Minute)
			begin()
		}
		rival.Wait()
		if err != nil || theirErr != nil {
			t.Fatal(err, theirErr)
		}
		if ours.Made == atOnce || theirs.Made == atOnce || atOnce && len(warnings) != 1 {
			t.Errorf("at once %t: ours is made %t (%s), theirs %t (%s), %v", atOnce, ours.Made, ours.CreatedAt, theirs.Made,
				theirs.CreatedAt, warnings)
		}
	}
}

// TestDownloadBesideAnUploadIsNotOwned: while a node downloads a file, a third party uploads the same one, under the same name.
// Which of the two is there in the end nothing tells.
func TestDownloadBesideAnUploadIsNotOwned(t *testing.T) {
	data := []byte("an image of some bytes")
	sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1"}, Web: web(data)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	source := Of("disc", data)
	spec := Spec{Node: "pve1", Storage: "local", Content: "iso", URL: "http://mirror.example/disc.iso", Checksum: source.Checksum}
	if spec.Name, err = Name(spec.Content, "disc.iso", source.Checksum); err != nil {
		t.Fatal(err)
	}
	here, cred := clock.Client{Cluster: sim.World().Clock}, sim.Credentials()
	config := pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(), DialTLSContext: sim.DialTLSContext, Clock: here,
		APIToken: cred.Token}
	theirs, err := pve.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(theirs.Close)
	uploaded := error(nil)
	config.Trace = func(ctx context.Context, message string, fields map[string]string) {
		if message == "PVE request" && strings.HasSuffix(fields["path"], "/download-url") {
			_, uploaded = theirs.Storage("pve1", "local").Upload(ctx, pve.Upload{Content: spec.Content, Filename: spec.Name,
				Checksum: source.Checksum.Value, Algorithm: source.Checksum.Algorithm, Size: source.Size, Open: source.open,
				Sent: func(context.Context, int64) {}})
		}
	}
	api, err := pve.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	jobs := request.New(api, here)
	made, _, err := New(jobs, destroy.New(jobs, guest.New(jobs), nil).Guard, nil).Create(t.Context(), spec)
	if err != nil || uploaded != nil {
		t.Fatal(err, uploaded)
	}
	if made.Made {
		t.Error("the file is owned, and may be the third party's")
	}
}

// TestFileOfAnUnreadableLogIsNotOwned: another run puts the file there right before the download, which finds it. PVE
// says so in the log of the task alone, which cannot be read. The file counts as the other run's.
func TestFileOfAnUnreadableLogIsNotOwned(t *testing.T) {
	data := []byte("an image of some bytes")
	sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1"}, Web: web(data)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	spec := Spec{Node: "pve1", Storage: "local", Content: "iso", URL: "http://mirror.example/disc.iso",
		Checksum: Of("disc", data).Checksum}
	if spec.Name, err = Name(spec.Content, "disc.iso", spec.Checksum); err != nil {
		t.Fatal(err)
	}
	here, cred := clock.Client{Cluster: sim.World().Clock}, sim.Credentials()
	comes := sync.OnceFunc(func() {
		w := sim.World()
		w.Lock()
		defer w.Unlock()
		w.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "iso/" + spec.Name, Content: "iso", Format: "iso",
			Size: int64(len(data)), Raw: data})
	})
	api, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(), DialTLSContext: sim.DialTLSContext,
		Clock: here, APIToken: cred.Token, Trace: func(_ context.Context, message string, fields map[string]string) {
			if message == "PVE request" && strings.HasSuffix(fields["path"], "/content") {
				comes()
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodGet, Path: "/nodes/{node}/tasks/{upid}/log"},
		Phase: fault.Before, Times: -1}})
	jobs := request.New(api, here)
	made, warnings, err := New(jobs, destroy.New(jobs, guest.New(jobs), nil).Guard, nil).Create(t.Context(), spec)
	if err != nil || sim.FaultsFired() == 0 {
		t.Fatal(err, sim.FaultsFired())
	}
	if made.Made || len(warnings) != 1 {
		t.Errorf("the file is owned: %t, and is another run's; %v", made.Made, warnings)
	}
}
