package main

import (
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"testing"
)

// TestMistakes: there are mistakes of each kind, drawn the same way from the same seed, and each is Go still.
func TestMistakes(t *testing.T) {
	t.Chdir("../../..")
	all, err := draw(1, 1<<20, "")
	if err != nil {
		t.Fatal(err)
	}
	again, err := draw(1, 1<<20, "")
	if err != nil || len(all) != len(again) {
		t.Fatalf("%d mistakes, and then %d: %v", len(all), len(again), err)
	}
	found := map[string]int{}
	for i, m := range all {
		found[m.kind.name]++
		if m.file != again[i].file || m.from != again[i].from || m.text != again[i].text {
			t.Fatalf("mistake %d is drawn in another way", i)
		}
		content, err := os.ReadFile(m.file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(content[:m.from]) + m.text + string(content[m.to:])
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, text, 0); err != nil {
			t.Errorf("%s:%d: %s: %v", m.file, m.line, m.what, err)
		}
	}
	want := map[string]bool{}
	for _, k := range kinds() {
		want[k.name] = true
	}
	for name := range want {
		if found[name] == 0 {
			t.Errorf("no place for %s", name)
		}
	}
	if len(all) < 400 || !reflect.DeepEqual(all[0].kind.name, kinds()[0].name) {
		t.Errorf("%d mistakes, the first is %s", len(all), all[0].kind.name)
	}
	t.Logf("%v", found)
}
