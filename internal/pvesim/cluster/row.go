package cluster

import (
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/encode"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/statistics"
)

// guestRow is a guest as pvestatd last saw it (pve-manager API2Tools.pm, extract_vm_stats). It is no table, because a
// listing has thousands of them.
type guestRow struct {
	guest *state.Guest
	// nil for one that pvestatd has not seen, or whose node is down: it is "unknown" and has no name
	stats  *statistics.Guest
	uptime int64
	// live is for a listing that adds the lock and the tags, which come from the configuration file. pool and ha do not
	// stand in it.
	live     bool
	pool, ha string
}

// reports tells whether the statistics of a node are in listings.
func reports(n *state.Node) bool { return n != nil && n.Online && !n.Silent }

func newGuestRow(e *engine.Engine, w *state.World, g *state.Guest) *guestRow {
	row := &guestRow{guest: g}
	if st, seen := e.Stats.Guests[g.VMID]; seen && reports(w.Nodes[g.Node]) {
		row.stats = &st
		if st.Running {
			row.uptime = max(0, int64(w.Clock.Now().Sub(st.StartedAt).Seconds()))
		}
	}
	return row
}

// AppendJSON writes the row with its keys in order, as encode does with a table.
func (r *guestRow) AppendJSON(b []byte) []byte {
	w, st, status := rowWriter{b: append(b, '{')}, r.stats, "unknown"
	var mem int64
	cpu := "0"
	if st != nil {
		status = "stopped"
		if st.Running {
			status, cpu, mem = st.QMPStatus, "0.01", st.Memory/2
		}
		w.raw("cpu", cpu)
		w.number("disk", 0)
		w.number("diskread", 0)
		w.number("diskwrite", 0)
	}
	w.text("hastate", r.ha)
	w.text("id", r.guest.Type+"/"+strconv.Itoa(r.guest.VMID))
	if r.live {
		w.text("lock", r.guest.Config["lock"])
	}
	if st != nil {
		w.number("maxcpu", int64(st.Cpus))
		w.number("maxdisk", st.Disk)
		w.number("maxmem", st.Memory)
		w.number("mem", mem)
		w.text("name", st.Name)
		w.number("netin", 0)
		w.number("netout", 0)
	}
	w.text("node", r.guest.Node)
	w.text("pool", r.pool)
	w.text("status", status)
	if r.live {
		w.text("tags", r.guest.Config["tags"])
	}
	if st != nil {
		w.number("template", int64(perl.Flag(st.Template)))
	}
	w.text("type", r.guest.Type)
	if st != nil {
		w.number("uptime", r.uptime)
	}
	w.number("vmid", int64(r.guest.VMID))
	return append(w.b, '}')
}

// rowWriter writes the members of an object. An empty text is left out.
type rowWriter struct {
	b     []byte
	begun bool
}

func (w *rowWriter) raw(key, value string) {
	if w.begun {
		w.b = append(w.b, ',')
	}
	w.begun = true
	w.b = append(w.b, '"')
	w.b = append(w.b, key...)
	w.b = append(w.b, '"', ':')
	w.b = append(w.b, value...)
}

func (w *rowWriter) number(key string, n int64) {
	w.raw(key, "")
	w.b = strconv.AppendInt(w.b, n, 10)
}

func (w *rowWriter) text(key, value string) {
	if value == "" {
		return
	}
	w.raw(key, "")
	w.b = encode.AppendText(w.b, value)
}
