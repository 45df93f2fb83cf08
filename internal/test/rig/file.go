package rig

import (
	"archive/tar"
	"bytes"
	"fmt"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// CloudInitISOBlock is a disc whose user data is one line.
func CloudInitISOBlock(line string) string {
	return fmt.Sprintf("resource \"proxmox_cloud_init_iso\" \"web\" {\n  node = \"pve1\"\n  storage = \"local\"\n  name = \"web-1\"\n"+
		"  user_data = \"#cloud-config\\n%s\\n\"\n}\n", line)
}

// CloudInitISOs are the discs of this test on the storage.
func CloudInitISOs(w *World) (names []string) {
	w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if strings.HasPrefix(v.Name, "iso/web-1-") {
				names = append(names, v.Name)
			}
		}
	})
	return names
}

// SnippetBlock is a snippet on the second node, so that a mistake about nodes shows.
func SnippetBlock(content string, lines ...string) string {
	return fmt.Sprintf("resource \"proxmox_snippet\" \"web\" {\n  node = \"pve2\"\n  storage = \"local\"\n  name = \"web.yaml\"\n  content = %q\n  %s\n}\n",
		content, strings.Join(lines, "\n  "))
}

// SnippetsLeft are files of nodes that the snippet's writes have left, hidden ones too.
func SnippetsLeft(w *World) (left []string) {
	w.Change(func(world *state.World) {
		for _, n := range world.Nodes {
			for name := range n.Files {
				if strings.Contains(name, "web.yaml") {
					left = append(left, n.Name+":"+name)
				}
			}
			if world.Volume(n.Name, "local:snippets/web.yaml") != nil {
				left = append(left, n.Name+":web.yaml")
			}
		}
	})
	return left
}

// OVA is an OVA with one disk of 64 KiB.
func OVA() []byte {
	const described = `<Envelope xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"><References><File ovf:id="f" ovf:href="disk1.vmdk"/>` +
		`</References></Envelope>`
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range map[string]string{"a.ovf": described, "disk1.vmdk": "KDMV" + strings.Repeat("\x00", 1<<16-4)} {
		_ = w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}) // into memory
		_, _ = w.Write([]byte(text))
	}
	_ = w.Close()
	return b.Bytes()
}
