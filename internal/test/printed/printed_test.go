package printed

import (
	"slices"
	"strings"
	"testing"
)

// TestUnsafeTexts: the check that every acceptance test runs over its diagnostics sees what it is there for.
func TestUnsafeTexts(t *testing.T) {
	for text, says := range map[string]string{
		"Free it with `pvesm free local:vm-1-disk-0` on node pve1":                   "",
		"Set `power_off = \"force\"`, or look at `status`":                           "",
		"     as root on pve1: qm unlock 100 && qm destroy 100 --purge\n":            "",
		"`grep -rF -- local:x /etc/pve/nodes; [ $? = 1 ] && pvesm free local:x`":     "",
		"`grep -qiF -- 0123 /etc/pve/x.conf && (qm unlock 1; qm destroy 1 --purge)`": "",
		"`pveum acl modify /vms --tokens 'terraform@pve!tf' --roles x`":              "",
		"a line\nand\ta tab": "",
		"`pvesm free local:vm-777-x;id>${PWD}PWNED;#.raw`":  "id",
		"     as root on pve1: pvesm free local:$(id)\n":    "CmdSubst",
		"`pvesm free local:a && curl x`":                    "curl",
		"`pvesm free local:a || qm destroy 1`":              "operator ||",
		"`pvesm free local:a > /etc/passwd`":                "redirects",
		"`pvesm free local:*`":                              "may change",
		"`pvesm free 'local:a`":                             "quote",
		"`reboot now`":                                      "reboot",
		"`PATH=. qm unlock 100`":                            "assigns",
		"`pveum acl modify /vms --tokens terraform@pve!tf`": "may change",
		"\x1b[2J":  "U+001B",
		"a\u202eb": "U+202E",
		"a\rb":     "U+000D",
		"a\u009bb": "U+009B",
		"a\xffb":   "U+FFFD",
		"a\u2066b": "U+2066",
	} {
		if got := strings.Join(Unsafe(text), "; "); (got == "") != (says == "") || !strings.Contains(got, says) {
			t.Errorf("%q: said %q, want %q", text, got, says)
		}
	}
}

// TestWordsOfACommand: words are those that bash gives the program.
func TestWordsOfACommand(t *testing.T) {
	got, err := Words(`qm set 1 --tags 'a b' && (pvesm free "x y"; [ $? = 1 ])`)
	want := [][]string{{"qm", "set", "1", "--tags", "a b"}, {"pvesm", "free", "x y"}, {"[", "$?", "=", "1", "]"}}
	if err != nil || !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("got %q, %v", got, err)
	}
}
