package combination_test

import (
	"bytes"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/engine"
)

// theirsStand compares third parties' objects between their acts, and from the last one to now, and looks for the volumes kept for the VM.
func (b *creationBench) theirsStand(when string, err error) {
	b.t.Helper()
	reports := b.w.Sim.Reports()
	for _, d := range reports[b.acts:] {
		b.same(when, d.Was, err)
		b.theirs = d.Is
	}
	b.same(when, b.w.Sim.ThirdParties(), err)
	b.theirs, b.acts = b.w.Sim.ThirdParties(), len(reports) // each change is reported once
	for _, v := range b.kept {
		found := false
		b.w.Change(func(w *state.World) {
			for _, other := range w.Volumes {
				found = found || other.Data == v.Data
			}
		})
		if !found {
			b.wrong(when, v.Volid()+" is lost", err)
		}
	}
}

const givenData = "the third party's data"

// same compares third parties' objects with the last ones. A disk of ours that a guest of theirs has too may grow.
func (b *creationBench) same(when string, is []byte, err error) {
	b.t.Helper()
	if bytes.Equal(b.theirs, is) || b.tooLate() {
		return
	}
	was, now := engine.Exported(b.theirs), engine.Exported(is)
	for _, each := range []map[string]map[string]string{was, now} {
		n := 0
		maps.DeleteFunc(each["volumes"], func(_, object string) bool {
			given := strings.Contains(object, givenData) && !strings.Contains(object, `"vmid":99`) // with our VM, it goes by another name
			n += strings.Count(object, givenData)
			// A disk of ours that a guest of theirs has got too may move within ten seconds (docs/design/create.md).
			return given || strings.Contains(object, `"shared":true`) || strings.Contains(object, `"gone":true`)
		})
		each["given"] = map[string]string{"": strconv.Itoa(n)}
	}
	if strings.Contains(b.said, "scsi29: ") { // a plan has named the disk that was given to a VM of which a create has failed
		was["given"], now["given"] = nil, nil
	}
	if diff := cmp.Diff(was, now); diff != "" {
		b.wrong(when, "what third parties have has changed: "+diff, err)
	}
}

// tooLate tells whether the last act came between our last look at the VM and a request that takes no digest: PVE has none that looks and
// acts at once.
func (b *creationBench) tooLate() bool {
	reports := b.w.Sim.Reports()
	if len(reports) == 0 {
		return false
	}
	for _, op := range b.w.Sim.OpsAfter(reports[len(reports)-1].Seq - 1) {
		switch {
		case op.Method != http.MethodGet:
			return op.Params["digest"] == "" || strings.Contains(op.Path, "/firewall/") // whose digest is of the rules
		case strings.HasSuffix(op.Path, "/config"), strings.HasSuffix(op.Path, "/pending"):
			return false
		}
	}
	return false
}
