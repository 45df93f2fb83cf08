package file

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// otherUpload is an upload of another run, whose task runs beside a create of the same file on pve1.
type otherUpload struct {
	taskOn, to string          // the node of the task, and that of its target
	name       string          // of its target; "" for that of the create
	shared     bool            // on a storage of all nodes
	hashes     bool            // at first it verifies its checksum, and does not say its target
	mute       bool            // it never says it
	fails      bool            // its copy fails, and it unlinks the target
	half       bool            // it has copied a half when the create sends its file
	before     bool            // it has copied a half when the create begins, and not begun when the create has sent its file
	polled     func(*otherRun) // at each look at the task of the create
}

// otherRun is a cluster with such a task.
type otherRun struct {
	otherUpload
	sim   *pvesim.Sim
	spec  Spec
	at    *state.Storage
	task  *state.Task
	files *Files
}

func (o otherUpload) run(t *testing.T) *otherRun {
	t.Helper()
	options := pvesim.Options{Nodes: []string{"pve1", "pve2"}, TaskTime: time.Minute}
	if o.polled != nil { // within synctest
		options.Clock, options.Latency = clock.Real{}, -1
	}
	sim, err := pvesim.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	source := Of("", []byte("an image of some bytes"))
	source.Path, source.Changed = "disc.iso", time.Time{}
	r := &otherRun{otherUpload: o, sim: sim, spec: Spec{Node: "pve1", Storage: "local", Content: ISO, Source: source,
		Checksum: source.Checksum}}
	if r.spec.Name, err = Name(ISO, "disc.iso", source.Checksum); err != nil {
		t.Fatal(err)
	}
	here := clock.Client{Cluster: sim.World().Clock}
	upid := "UPID:" + o.taskOn + ":0000ABCD:00000001:6B0D9300:imgcopy::other@pve!ci:"
	r.task = &state.Task{UPID: upid, Node: o.taskOn, Type: "imgcopy", User: "other@pve!ci", Start: here.Now(), Running: true,
		Log: []string{"starting file import from: /var/tmp/pveupload-1"}}
	if o.name == "" {
		r.name = r.spec.Name
	}
	w := sim.World()
	w.Lock()
	if r.at = w.Storages["local"]; o.shared {
		r.at = w.Storages["shared-nfs"]
		r.at.Content, r.spec.Storage = append(r.at.Content, ISO), r.at.ID
	}
	if !o.hashes && !o.mute {
		r.tell()
	}
	w.Unlock()
	begin := sync.OnceFunc(func() {
		w.Lock()
		defer w.Unlock()
		w.Tasks[upid] = r.task
		if o.before || o.half {
			r.store(len(source.Data) / 2)
		}
	})
	if o.before {
		begin()
	}
	api, err := pve.New(pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(), DialTLSContext: sim.DialTLSContext,
		Clock: here, APIToken: sim.Credentials().Token,
		Trace: func(_ context.Context, message string, fields map[string]string) {
			switch path := fields["path"]; {
			case message != "PVE request":
			case strings.HasSuffix(path, "/upload"):
				begin()
			case strings.HasSuffix(path, upid+"/log") && !o.mute:
				w.Lock()
				r.tell()
				w.Unlock()
			case strings.HasSuffix(path, upid+"/status"):
				r.end()
			case strings.HasSuffix(path, "/status") && o.polled != nil:
				o.polled(r)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	jobs := request.New(api, here)
	r.files = New(jobs, destroy.New(jobs, guest.New(jobs), nil).Guard, nil)
	return r
}

// tell has the task say its target, once.
func (r *otherRun) tell() {
	if len(r.task.Log) == 1 {
		r.task.Log = append(r.task.Log, "target node: "+r.to, "target file: "+r.at.VolumePath("iso/"+r.name))
	}
}

// store has some bytes of the file on the storage.
func (r *otherRun) store(size int) {
	r.sim.World().Put(&state.Volume{Storage: r.at.ID, Node: r.at.Key(r.to, "").Node, Name: "iso/" + r.name, Content: ISO,
		Format: ISO, Size: int64(size), Data: "theirs", Raw: r.spec.Source.Data[:size]})
}

// end ends the task.
func (r *otherRun) end() {
	w := r.sim.World()
	w.Lock()
	defer w.Unlock()
	if !r.task.Running {
		return
	}
	r.task.Running, r.task.End, r.task.ExitStatus = false, state.NodeTime(w, r.taskOn), "OK"
	if r.store(len(r.spec.Source.Data)); r.fails {
		r.task.ExitStatus = "import failed: exit code 1"
		for key, v := range w.Volumes {
			if v.Name == "iso/"+r.name {
				delete(w.Volumes, key)
			}
		}
	}
}

func (r *otherRun) runs() bool {
	w := r.sim.World()
	w.Lock()
	defer w.Unlock()
	return r.task.Running
}

// TestUploadAwaitsAnotherThatWritesOverIt: another run uploads the same file, and its copy begins after ours. PVE copies
// in the place of the file ("cp", scp), so a VM that were made of it meanwhile would get a part. The create hands the
// file on when the other task has ended, and if it is whole then. It does not own it. The task may be on any node, and
// does not say its target before the checksum is verified.
func TestUploadAwaitsAnotherThatWritesOverIt(t *testing.T) {
	for name, o := range map[string]otherUpload{
		"by the same node":            {taskOn: "pve1", to: "pve1"},
		"by another node":             {taskOn: "pve2", to: "pve1"},
		"to another node, shared":     {taskOn: "pve2", to: "pve2", shared: true},
		"its checksum is verified":    {taskOn: "pve1", to: "pve1", hashes: true},
		"its copy fails, by the same": {taskOn: "pve1", to: "pve1", fails: true},
	} {
		r := o.run(t)
		made, warnings, err := r.files.Create(t.Context(), r.spec)
		switch {
		case r.runs():
			t.Errorf("%s: the file is handed on while the other task writes it", name)
		case o.fails && (err == nil || !strings.Contains(err.Error(), r.task.UPID+" of a third party has written over it")):
			t.Errorf("%s: %v", name, err)
		case !o.fails && (err != nil || made.Made || len(warnings) != 1):
			t.Errorf("%s: made %t, %v, %v", name, made.Made, warnings, err)
		}
	}
}

// TestUnrelatedUploadCostsNoOwner: an upload that does not say its target is mostly of another file, and is awaited for
// half a minute, whatever it does. Nor is the file in doubt since another node gives no answer.
func TestUnrelatedUploadCostsNoOwner(t *testing.T) {
	for name, silent := range map[string]bool{"a target that is never told": false, "a node that gives no answer": true} {
		r := otherUpload{taskOn: "pve2", to: "pve2", mute: true}.run(t)
		w := r.sim.World()
		w.Lock()
		w.Nodes["pve2"].Unreached = silent
		w.Unlock()
		here := clock.Client{Cluster: r.sim.World().Clock}
		began := here.Now()
		made, warnings, err := r.files.Create(t.Context(), r.spec)
		if took := here.Now().Sub(began); err != nil || !made.Made || len(warnings) > 0 || took > 3*time.Minute || !r.runs() {
			t.Errorf("%s: made %t, %v, %v, after %s", name, made.Made, warnings, err, took)
		}
	}
}

// listed is the file as it is on the storage; nil if there is none.
func (r *otherRun) listed() *state.Volume {
	w := r.sim.World()
	w.Lock()
	defer w.Unlock()
	return w.Volume("pve1", r.spec.Volume())
}

// isNamed reports whether the error of a create names the file, without a command that removes it.
func (r *otherRun) isNamed(err error) bool {
	var failed *saga.Error
	return errors.As(err, &failed) && slices.ContainsFunc(failed.Left, func(left saga.Residue) bool {
		return left.ID == r.spec.Volume() && left.Command == ""
	})
}

// TestUndoSparesAFileThatAnotherUploadWrites: the task of an upload is killed while another run copies the same file.
// The part that is listed is the other run's. It was removed under the other's copy.
func TestUndoSparesAFileThatAnotherUploadWrites(t *testing.T) {
	for name, o := range map[string]otherUpload{
		"by the same node":        {taskOn: "pve1", to: "pve1", half: true},
		"by another node":         {taskOn: "pve2", to: "pve1", half: true},
		"to another node":         {taskOn: "pve2", to: "pve2", half: true},
		"of another image":        {taskOn: "pve1", to: "pve1", half: true, name: "other.iso"},
		"by way of the same node": {taskOn: "pve1", to: "pve2", half: true},
	} {
		r := o.run(t)
		r.sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: http.MethodPost}, Phase: fault.KillTask}})
		_, _, err := r.files.Create(t.Context(), r.spec)
		theirs := o.half && o.to == "pve1" && o.name == ""
		if err == nil || r.isNamed(err) != theirs || (r.listed() != nil) != theirs {
			t.Errorf("%s: it is there: %t, named: %t; %v", name, r.listed() != nil, r.isNamed(err), err)
		}
	}
}

// TestInterruptedUploadAwaitsItsCopy: another run has uploaded the same file while PVE verified ours, and uses it. The
// create is interrupted while PVE copies ours over it. A stop makes PVE unlink the file (pve-storage
// API2/Storage/Status.pm upload); the end of the copy leaves it whole, and it is named, and not removed.
func TestInterruptedUploadAwaitsItsCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		r := otherUpload{taskOn: "pve1", to: "pve1", polled: func(r *otherRun) {
			if v := r.listed(); v == nil {
				r.end()
			} else if v.Data != "theirs" && v.Size < int64(len(r.spec.Source.Data)) {
				interrupt()
			}
		}}.run(t)
		_, _, err := r.files.Create(ctx, r.spec)
		v := r.listed()
		if ctx.Err() == nil || err == nil || v == nil || v.Size != int64(len(r.spec.Source.Data)) || !r.isNamed(err) {
			t.Errorf("interrupted: %t, on the storage: %+v; %v", ctx.Err() != nil, v, err)
		}
	})
}

// TestUploadToAnotherPlaceIsNoRival: another run uploads the same image to another node, by way of the same one, or
// another image to the same node. The create does not wait for it, and owns its file.
func TestUploadToAnotherPlaceIsNoRival(t *testing.T) {
	for name, o := range map[string]otherUpload{
		"another node":  {taskOn: "pve1", to: "pve2"},
		"another image": {taskOn: "pve1", to: "pve1", name: "other.iso", hashes: true},
	} {
		r := o.run(t)
		made, warnings, err := r.files.Create(t.Context(), r.spec)
		if err != nil || !made.Made || len(warnings) > 0 || !r.runs() {
			t.Errorf("%s: made %t, %v, %v; the other task runs: %t", name, made.Made, warnings, err, r.runs())
		}
	}
}

// TestUploadBesideOneThatRuns: another run uploads the same file, of which a part is there. The plan says so, and the
// create waits for it and uses the file. Both were refused, with the advice to remove the other run's file under its
// copy.
func TestUploadBesideOneThatRuns(t *testing.T) {
	for name, o := range map[string]otherUpload{
		"it ends well":    {taskOn: "pve1", to: "pve1", before: true},
		"by another node": {taskOn: "pve2", to: "pve1", before: true},
		"its copy fails":  {taskOn: "pve1", to: "pve1", before: true, fails: true},
	} {
		r := o.run(t)
		found, doubts := r.files.Check(t.Context(), r.spec)
		if len(found) > 0 || len(doubts) != 1 || !strings.Contains(doubts[0].Detail, r.task.UPID) {
			t.Errorf("%s: the plan: %v, %v", name, found, doubts)
		}
		made, warnings, err := r.files.Create(t.Context(), r.spec)
		if err != nil || made.Made != o.fails || len(warnings) > 0 || r.runs() {
			t.Errorf("%s: made %t, %v, %v; the other task runs: %t", name, made.Made, warnings, err, r.runs())
		}
	}
	r := otherUpload{taskOn: "pve1", to: "pve1", before: true, name: "other.iso"}.run(t)
	r.name = r.spec.Name
	w := r.sim.World()
	w.Lock()
	r.store(1)
	w.Unlock()
	if found, doubts := r.files.Check(t.Context(), r.spec); len(found) != 1 || len(doubts) > 0 {
		t.Errorf("a part beside an upload of another image: the plan: %v, %v", found, doubts)
	}
}
