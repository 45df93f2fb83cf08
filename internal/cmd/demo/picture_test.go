package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestPictureIsDrawnFromRecordings: the committed picture is the drawing of the committed recordings, of this provider and
// of bpg's, with the day and the version of each.
func TestPictureIsDrawnFromRecordings(t *testing.T) {
	scenes, err := readScenes()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenes {
		if s.Provider == "" || s.Played == "" || !strings.HasPrefix(s.Said, "Error: ") {
			t.Errorf("a recording has %+v", s)
		}
	}
	if want := "bpg/proxmox 0."; !strings.HasPrefix(scenes[1].Provider, want) {
		t.Errorf("the other provider is %s, without a version", scenes[1].Provider)
	}
	committed, err := os.ReadFile(filepath.Join("..", "..", "..", pictureFile))
	if err != nil {
		t.Fatal(err)
	}
	if string(committed) != draw(scenes) {
		t.Errorf("%s is not what `make demo-picture` draws of %s", pictureFile, recordedDir)
	}
}

// TestPictureIsTrue plays this provider's side without a CLI. It says what the recording says, and leaves as much.
func TestPictureIsTrue(t *testing.T) {
	scenes, err := readScenes()
	if err != nil {
		t.Fatal(err)
	}
	world, err := rig.OpenWorld(quick())
	if err != nil {
		t.Fatal(err)
	}
	defer world.Close()
	failTheStart(world)
	engine := newProtocol(world)
	if err := engine.configure([]string{"provider.tf", "picture.tf"}, nil); err != nil {
		t.Fatal(err)
	}
	r := engine.apply(context.Background())
	if got := leftOnServer(world); r.ok || !slices.Equal(got, scenes[0].Server) {
		t.Errorf("on the server: %v, recorded are %v", got, scenes[0].Server)
	}
	if got := engine.addresses(context.Background()); !slices.Equal(got, scenes[0].State) {
		t.Errorf("in state: %v, recorded is %v", got, scenes[0].State)
	}
	says := strings.Join(strings.Fields(upid.ReplaceAllString(r.output, "")), " ")
	for _, paragraph := range paragraphs(scenes[0].Said) {
		words := strings.Join(strings.Fields(upid.ReplaceAllString(strings.TrimPrefix(paragraph, "Error: "), "")), " ")
		if !strings.Contains(says, words) {
			t.Errorf("the recording says %q, and the provider:\n%s", words, r.output)
		}
	}
}

// TestPictureOfAnything: no text breaks the drawing.
func TestPictureOfAnything(t *testing.T) {
	long := strings.Repeat("x", 3*columns)
	svg := draw([]scene{{Provider: `a<b>&"`, Said: "Error: <" + long + ">\n\n- one\n  two: " + long, Server: []string{"&"}}})
	if strings.Contains(svg, "<xx") || strings.Contains(svg, "b>&") || !strings.Contains(svg, "&lt;b&gt;&amp;&#34;") {
		t.Error(svg)
	}
	for _, s := range []string{long, "a " + long, strings.Repeat("ab ", columns)} {
		for _, l := range wrap(s, columns) {
			if len(l) > columns {
				t.Errorf("a line of %d columns: %s", len(l), l)
			}
		}
		if got := strings.ReplaceAll(strings.Join(wrap(s, columns), ""), " ", ""); got != strings.ReplaceAll(s, " ", "") {
			t.Errorf("%q becomes %q", s, got)
		}
	}
}
