package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// A thousand VMs are not created to see what it costs to plan them: one is, and the others are made from it, in the cluster
// and in the state. The plan says whether that went well, for it must be empty.

// twin is a VM with the marks by which another one differs from it.
type twin struct {
	vmid                           int
	index                          int // of count
	name, node, uuid, vmgenid, mac string
}

// renaming turns texts about one VM into texts about another.
func (t twin) renaming(to twin) *strings.Replacer {
	pairs := []string{t.name, to.name, t.node, to.node, fmt.Sprintf("vm-%d-", t.vmid), fmt.Sprintf("vm-%d-", to.vmid)}
	for from, to := range map[string]string{t.uuid: to.uuid, t.vmgenid: to.vmgenid, t.mac: to.mac} {
		if from != "" {
			pairs = append(pairs, from, to)
		}
	}
	return strings.NewReplacer(pairs...)
}

// multiply makes n VMs of the one that a side has just created.
func (s *side) multiply(sim *pvesim.Sim, n int) error {
	twins, err := multiplyGuest(sim.World(), n, s.spread)
	if err != nil || len(twins) < 2 {
		return err
	}
	if err := sim.Load(sim.Snapshot()); err != nil { // the listing knows them from now on, with their status
		return err
	}
	text, err := os.ReadFile(s.stateFile())
	if err != nil {
		return err
	}
	if text, err = multiplyState(text, twins); err != nil {
		return fmt.Errorf("%s: %w", s.stateFile(), err)
	}
	return os.WriteFile(s.stateFile(), text, 0o600)
}

// multiplyGuest makes n guests of the one that is called plain-0, itself included, and returns them all, it first. With spread every
// other one is on the node that will be away.
func multiplyGuest(w *state.World, n int, spread bool) ([]twin, error) {
	w.Lock()
	defer w.Unlock()
	var first *state.Guest
	for _, g := range w.Guests {
		if g.Config["name"] == "plain-0" {
			first = g
		}
	}
	if first == nil {
		return nil, nil // terraform_data
	}
	original := twin{
		vmid: first.VMID, name: first.Config["name"], node: first.Node, uuid: between(first.Config["smbios1"], "uuid="),
		vmgenid: first.Config["vmgenid"], mac: between(first.Config["net0"], "virtio="),
	}
	twins := []twin{original}
	for i := 1; i < n; i++ {
		t := twin{vmid: original.vmid + i, index: i, name: fmt.Sprintf("plain-%d", i), node: first.Node,
			uuid: w.UUID(), vmgenid: w.UUID(), mac: w.MAC()}
		if w.Guests[t.vmid] != nil {
			return nil, fmt.Errorf("VMID %d is taken", t.vmid)
		}
		if spread && i%2 == 1 {
			t.node = away
		}
		rename := original.renaming(t)
		g := first.Clone()
		g.VMID, g.Node = t.vmid, t.node
		for key, value := range g.Config {
			g.Config[key] = rename.Replace(value)
		}
		w.Guests[g.VMID] = g
		for _, v := range volumesOf(w, original.vmid) {
			v.VMID, v.Node, v.Name = t.vmid, t.node, rename.Replace(v.Name)
			w.Put(&v)
		}
		twins = append(twins, t)
	}
	return twins, w.Check()
}

func volumesOf(w *state.World, vmid int) (all []state.Volume) {
	for _, v := range w.Volumes {
		if v.VMID == vmid {
			all = append(all, *v)
		}
	}
	return all
}

// between is what stands behind a key in a property string, up to the next comma.
func between(text, key string) string {
	_, rest, _ := strings.Cut(text, key)
	value, _, _ := strings.Cut(rest, ",")
	return value
}

// multiplyState puts an instance for each twin in the place of the one that there is.
func multiplyState(text []byte, twins []twin) ([]byte, error) {
	document, err := decode(text)
	if err != nil {
		return nil, err
	}
	top, _ := document.(map[string]any)
	resources, _ := top["resources"].([]any)
	if len(resources) != 1 {
		return nil, fmt.Errorf("%d resources, want one", len(resources))
	}
	resource, _ := resources[0].(map[string]any)
	instances, _ := resource["instances"].([]any)
	if len(instances) != 1 {
		return nil, fmt.Errorf("%d instances, want one", len(instances))
	}
	original, ok := instances[0].(map[string]any)
	if !ok {
		return nil, errors.New("the instance is no object")
	}
	for _, t := range twins[1:] {
		instance := maps.Clone(original)
		instance["index_key"] = t.index
		instance["attributes"] = twins[0].rewrite(t, original["attributes"])
		if private, ok := original["private"].(string); ok {
			if instance["private"], err = twins[0].rewritePrivate(t, private); err != nil {
				return nil, err
			}
		}
		instances = append(instances, instance)
	}
	resource["instances"] = instances
	return json.Marshal(document)
}

func decode(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// rewrite turns a JSON value about t into one about another VM.
func (t twin) rewrite(to twin, v any) any {
	switch v := v.(type) {
	case string:
		if v == strconv.Itoa(t.vmid) {
			return strconv.Itoa(to.vmid)
		}
		return t.renaming(to).Replace(v)
	case json.Number:
		if v.String() == strconv.Itoa(t.vmid) {
			return to.vmid
		}
	case []any:
		out := slices.Clone(v)
		for i, element := range out {
			out[i] = t.rewrite(to, element)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for key, element := range v {
			out[key] = t.rewrite(to, element)
		}
		return out
	}
	return v
}

// rewritePrivate does the same to the private state of terraform-plugin-framework: JSON in base64, of values in base64.
func (t twin) rewritePrivate(to twin, private string) (string, error) {
	text, err := base64.StdEncoding.DecodeString(private)
	if err != nil {
		return "", fmt.Errorf("private state: %w", err)
	}
	if !bytes.HasPrefix(text, []byte("{")) {
		return private, nil // terraform-plugin-sdk's "null"
	}
	var values map[string][]byte // base64 in JSON
	if err := json.Unmarshal(text, &values); err != nil {
		return "", fmt.Errorf("private state: %w", err)
	}
	for key, value := range values {
		values[key] = []byte(t.renaming(to).Replace(string(value)))
	}
	if text, err = json.Marshal(values); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(text), nil
}
