// Package firewall has the firewall files of guests, nodes and the cluster.
package firewall

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// noLog is the log of a firewall that has written nothing: no list, but the line itself, as for a task without a log.
func noLog(r *engine.Request) (any, error) {
	r.Extra = map[string]any{"total": 1}
	return map[string]any{"n": 1, "t": "unable to open file - No such file or directory"}, nil
}

// writableFirewall is the file to change, made if there is none; there need be no guest. digest is that of the part
// that changes, nil where PVE takes one and compares it with nothing.
func writableFirewall(r *engine.Request, digest func(*state.FirewallFile) string) (*state.FirewallFile, error) {
	at := placeOf(r)
	if at.vmid != 0 {
		if err := Lock(r.Engine, at.vmid); err != nil {
			return nil, err
		}
	}
	f := firewallFile(r)
	if want := r.Params["digest"]; want != "" && digest != nil && want != digest(f) {
		return nil, perl.Die("detected modified configuration - file changed by other user? Try again.")
	}
	if f.Options == nil {
		f.Options = map[string]string{}
	}
	if at.vmid != 0 {
		r.W.Firewall[at.vmid] = f
		return f, nil
	}
	if r.W.Firewalls == nil {
		r.W.Firewalls = map[string]*state.FirewallFile{}
	}
	r.W.Firewalls[at.name] = f
	return f, nil
}

// optionsDigest and rulesDigest are made of the options alone, or of the rules alone, whatever else the file has and
// whose it is (pve-firewall Firewall.pm copy_opject_with_digest, copy_list_with_digest).
func optionsDigest(f *state.FirewallFile) string { return objectsDigest(f.Options) }

func rulesDigest(f *state.FirewallFile) string { return objectsDigest(f.Rules...) }

func objectsDigest(objects ...map[string]string) string {
	sum := sha1.New()
	for _, object := range objects {
		for _, name := range slices.Sorted(maps.Keys(object)) {
			_, _ = fmt.Fprintf(sum, "%s:%s\n", name, object[name]) // never fails
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// firewallDigest is the SHA1 of the file's text, for aliases and sets; that of an empty file if there is none.
func firewallDigest(f *state.FirewallFile) string {
	var text []byte
	if len(f.Options)+len(f.Rules)+len(f.Aliases)+len(f.IPSets) > 0 {
		text, _ = json.Marshal(f) // strings and lists of them only
	}
	sum := sha1.Sum(text)
	return hex.EncodeToString(sum[:])
}

// texts are the properties of rules and options that are no numbers even if they look like one.
var texts = []string{"action", "comment", "dest", "dport", "icmp-type", "macro", "proto", "source", "sport"}

func typed(values map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range values {
		out[k] = v
		if n, ok := perl.ParseNumber(v); ok && !slices.Contains(texts, k) {
			out[k] = n
		}
	}
	return out
}

// firewallOptions reads the file, whether there is a guest or not (pve-firewall API2/Firewall/VM.pm get_options).
func firewallOptions(r *engine.Request) (any, error) {
	f := firewallFile(r)
	out := typed(f.Options)
	out["digest"] = optionsDigest(f)
	return out, nil
}

func bodyParams(r *engine.Request) map[string]string {
	p := maps.Clone(r.Params)
	for _, k := range []string{"node", "vmid", "group", "digest", "pos", "delete", "moveto"} {
		delete(p, k)
	}
	return p
}

func firewallSetOptions(r *engine.Request) (any, error) {
	f, err := writableFirewall(r, optionsDigest)
	if err != nil {
		return nil, err
	}
	for _, k := range perl.SplitList(r.Params["delete"]) {
		if !slices.Contains(optionNames[placeOf(r).env], k) {
			return nil, perl.Invalid("delete", "no such option '"+k+"'")
		}
		delete(f.Options, k)
	}
	maps.Copy(f.Options, bodyParams(r))
	if n, _ := perl.ParseNumber(r.Params["enable"]); n > 1 { // the first of two calls that guard against a lock-out
		f.Options["enable"] = strconv.FormatInt(r.W.Clock.Now().Unix(), 10)
	}
	return nil, nil
}

// Lock waits for that lock; it is never held here, as what the simulator does under it takes no time.
func Lock(e *engine.Engine, vmid int) error {
	free := func() bool { return e.Locks[engine.FirewallLock(vmid)] == nil }
	if free() {
		return nil
	}
	if e.Wait(engine.LockTimeout, free); free() {
		return nil
	}
	return perl.Die("cfs-lock 'firewall-vm-%d' error: got lock request timeout", vmid)
}
