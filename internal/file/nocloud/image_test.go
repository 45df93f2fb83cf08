package nocloud_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kdomanski/iso9660"
	"pgregory.net/rapid"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/file/nocloud"
)

// readDisc reads a disc with a library that is none of ours: the label, and the files by their names in Rock Ridge.
func readDisc(t interface {
	Helper()
	Fatal(...any)
}, disc []byte) (label string, files map[string]string) {
	t.Helper()
	image, err := iso9660.OpenImage(bytes.NewReader(disc))
	if err != nil {
		t.Fatal(err)
	}
	if label, err = image.Label(); err != nil {
		t.Fatal(err)
	}
	root, err := image.RootDir()
	if err != nil {
		t.Fatal(err)
	}
	children, err := root.GetChildren()
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for _, child := range children {
		data, err := io.ReadAll(child.Reader())
		if err != nil {
			t.Fatal(err)
		}
		files[child.Name()] = string(data)
	}
	return label, files
}

// TestImageIsRead: what was written is read, under the names that cloud-init looks for, whatever the documents are.
func TestImageIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.Map(rapid.IntRange(2040, 9000),
			func(n int) string { return strings.Repeat("x", n) }))
		seed := nocloud.Seed{UserData: text.Draw(t, "user"), MetaData: text.Draw(t, "meta"), NetworkConfig: text.Draw(t,
			"network"),
			VendorData: text.Draw(t, "vendor")}
		want := map[string]string{"user-data": seed.UserData, "meta-data": seed.MetaData}
		if seed.MetaData == "" {
			want["meta-data"] = "instance-id: " + seed.InstanceID() + "\n"
		}
		if seed.NetworkConfig != "" {
			want["network-config"] = seed.NetworkConfig
		}
		if seed.VendorData != "" {
			want["vendor-data"] = seed.VendorData
		}
		disc := seed.Image()
		label, files := readDisc(t, disc)
		if label != "cidata" || len(disc)%2048 != 0 {
			t.Errorf("label %q, %d bytes", label, len(disc))
		}
		if diff := cmp.Diff(want, files); diff != "" {
			t.Error(diff)
		}
		if !bytes.Equal(disc, seed.Image()) {
			t.Error("the same documents give other bytes")
		}
	})
}

// TestImageBytes holds the bytes: another disc for the same documents would be another file for every VM that has one.
func TestImageBytes(t *testing.T) {
	seed := nocloud.Seed{UserData: "#cloud-config\nhostname: web-1\n", NetworkConfig: "version: 2\n"}
	sum := sha256.Sum256(seed.Image())
	if got := hex.EncodeToString(sum[:]); got != "d5f7f12e50c1ba68e05a6b02eadf078633f1680cd8193ee810b09df813ac40d0" {
		t.Errorf("the sum is %s", got)
	}
}

// TestInstanceID: each document counts, and where one ends and the next begins.
func TestInstanceID(t *testing.T) {
	seen := map[string]nocloud.Seed{}
	for _, seed := range []nocloud.Seed{
		{}, {UserData: "a"}, {MetaData: "a"}, {NetworkConfig: "a"}, {VendorData: "a"}, {UserData: "ab"}, {UserData: "a",
			MetaData: "b"},
	} {
		id := seed.InstanceID()
		if was, ok := seen[id]; ok || !strings.HasPrefix(id, "iid-") {
			t.Errorf("%+v and %+v are both %s", was, seed, id)
		}
		seen[id] = seed
	}
}
