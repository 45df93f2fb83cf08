package storage_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// uploadLimit is the most memory that an upload takes.
const uploadLimit = 64 << 20

// TestUploadInConstantMemory uploads a file, of 1 GiB in the whole, in a process of its own in which nothing else is at work: plan and apply of the
// provider, and the simulator at the other end of the line. Both together stay below the limit.
func TestUploadInConstantMemory(t *testing.T) {
	if os.Getenv("UPLOAD_ALONE") != "" {
		uploadAlone(t)
		return
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestUploadInConstantMemory$", "-test.v", "-test.timeout=9m")
	cmd.Env = append(os.Environ(), "UPLOAD_ALONE=1")
	out, err := cmd.CombinedOutput()
	for _, line := range strings.Split(string(out), "\n") {
		if strings.Contains(line, "MiB") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if err != nil || !strings.Contains(string(out), "of memory at most") {
		t.Errorf("%v\n%s", err, out)
	}
}

func uploadAlone(t *testing.T) {
	size := int64(share.Count(128, 1024)) << 20
	path := filepath.Join(t.TempDir(), "large.raw")
	file, err := os.Create(path)
	if err == nil {
		err = file.Truncate(size)
	}
	if err != nil || file.Close() != nil {
		t.Fatal(err)
	}
	w := rig.NewWorld(t)
	s := w.Session(t, rig.TokenNoSSH, rig.ImageBlock("disk", `node = "pve1"`, `storage = "local"`, fmt.Sprintf("source_file = "+
		"%q", path)))
	before := memory()
	peak, stop := watchMemory()
	begin := time.Now()
	err = s.Converge(t.Context())
	stop()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d MiB uploaded in %s: %d MiB of memory at most, provider and simulator together; %d MiB before", size>>20,
		time.Since(begin).Round(time.Second), *peak>>20, before>>20)
	if *peak > uploadLimit && !rig.RaceDetector {
		t.Errorf("more than %d MiB", uploadLimit>>20)
	}
	if v := rig.VolumeOn(w, strings.Trim(rig.ImageAttr(s, "volume"), `"`)); v == nil || v.Size != size {
		t.Errorf("on the storage: %+v", v)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.MustBeClean(t)
}

// memory is the memory that the runtime has from the system and has not returned.
func memory() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64() - sample[1].Value.Uint64()
}

// watchMemory notes the most that there was until stop is called.
func watchMemory() (peak *uint64, stop func()) {
	peak = new(uint64)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			*peak = max(*peak, memory())
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	}()
	return peak, func() { close(end); <-ended }
}

// uploadWorld is a cluster, and a file of some MiB to be uploaded to it.
func uploadWorld(t *testing.T, options ...pvesim.Options) (w *rig.World, config string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk.raw")
	if err := os.WriteFile(path, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	return rig.NewWorld(t, options...), rig.ImageBlock("disk", `node = "pve1"`, `storage = "local"`, fmt.Sprintf("source_file = "+
		"%q", path))
}

// TestUploadInterrupted: the task of an upload that is interrupted is stopped, and nothing is left.
func TestUploadInterrupted(t *testing.T) {
	t.Parallel()
	w, config := uploadWorld(t, pvesim.Options{Clock: clock.Real{}, TaskTime: time.Minute})
	s := w.Session(t, rig.TokenNoSSH, config)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // while the task is at work
		for n := 0; n == 0 && ctx.Err() == nil; {
			w.Change(func(world *state.World) { n = len(world.Tasks) })
			clock.Real{}.SleepContext(ctx, 10*time.Millisecond)
		}
		clock.Real{}.SleepContext(ctx, time.Second) // until its answer has come
		cancel()
	}()
	err := s.Run(ctx)
	rig.MustSay(t, err, "was stopped", "nothing is left on the server")
	if in := s.Addresses(); len(in) > 0 {
		t.Errorf("in state: %v", in)
	}
	w.MustBeClean(t)
}

// TestUploadChangedMeanwhile: a file that changes between the plan and the apply is another one than was planned; one with the
// wrong checksum is not sent.
func TestUploadChangedMeanwhile(t *testing.T) {
	t.Parallel()
	w, config := uploadWorld(t)
	wrong := strings.Replace(config, "  source_file", "  checksum = \""+strings.Repeat("0", 64)+"\"\n  source_file", 1)
	s := w.Session(t, rig.TokenNoSSH, wrong)
	_, err := s.Plan(t.Context())
	rig.MustSay(t, err, "has the sha256 checksum", strings.Repeat("0", 64))
	for _, op := range w.Sim.Ops() {
		if op.Method != http.MethodGet {
			t.Errorf("sent %s %s", op.Method, op.Path)
		}
	}
	w.Reconfigure(t, s, rig.TokenNoSSH, config)
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := rig.ImageAttr(s, "volume")
	_, path, _ := strings.Cut(config, "source_file = \"")
	path, _, _ = strings.Cut(path, `"`)
	if err := os.WriteFile(path, []byte(strings.Repeat("another", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	plan, err := s.Plan(t.Context())
	if err != nil || !strings.Contains(plan.String(), "replace proxmox_image.disk") {
		t.Fatalf("planned %v, %v", plan, err)
	}
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if second := rig.ImageAttr(s, "volume"); second == first || rig.VolumeOn(w, first) != nil || rig.VolumeOn(w, second) == nil {
		t.Errorf("first %s, then %s", first, second)
	}
	// On a machine without the file nothing is planned, and that is said.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	plan, err = s.Plan(t.Context())
	if err != nil || !plan.Empty() || !strings.Contains(fmt.Sprint(s.Diagnostics()), "There is no file "+path) {
		t.Errorf("planned %v, %v, %v", plan, err, s.Diagnostics())
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.MustBeClean(t)
}

// TestUploadProgress: the log says how far an upload has come, and which requests it was.
func TestUploadProgress(t *testing.T) {
	t.Parallel()
	w, config := uploadWorld(t)
	var log bytes.Buffer
	w.LogTo(&log)
	s := w.Session(t, rig.TokenNoSSH, config)
	if err := s.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"uploading ", `"percent":"100"`, fmt.Sprintf(`"of":"%d"`, 8<<20)} {
		if !strings.Contains(log.String(), words) {
			t.Errorf("the log does not say %s", words)
		}
	}
	if strings.Contains(log.String(), w.Sim.Credentials().Token) {
		t.Error("the log has the token")
	}
}
