package ownership

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// aMark draws a mark as the provider writes it.
func aMark(t *rapid.T) Mark {
	m := Mark{Cluster: rapid.StringMatching(`pve[0-9](,pve[0-9]){0,2}`).Draw(t, "cluster"),
		VMID: rapid.IntRange(100, 999999999).Draw(t, "vmid"), Saga: rapid.StringMatching(`[0-9a-f]{16}`).Draw(t, "transaction"),
		Key:     rapid.StringMatching(`[0-9a-f]{32}`).Draw(t, "key"),
		User:    rapid.SampledFrom([]string{"root@pam", me, "jörg.müller+x@ad-1!a_b"}).Draw(t, "user"),
		By:      rapid.SampledFrom([]string{"qmcreate", "qmclone", "qmrestore"}).Draw(t, "by"),
		Process: rapid.SampledFrom([]string{"", "host 0123456789abcdef pid:[1] 1 2"}).Draw(t, "process"),
		Renewed: rapid.IntRange(0, 1e6).Draw(t, "renewed"), Kept: rapid.Bool().Draw(t, "kept"),
		UUID: rapid.SampledFrom([]string{"", theUUID}).Draw(t, "uuid"),
		Task: rapid.SampledFrom([]string{"", "UPID:pve1:0010C1F5:0A2B3C4D:65A1B2C3:qmcreate:400:terraform@pve!ci:"}).Draw(t, "task")}
	m.Begun = rapid.SampledFrom([]int{0, 1700000000}).Draw(t, "begun")
	if m.By == "qmclone" {
		m.Source = rapid.IntRange(100, 999999999).Draw(t, "source")
	}
	return m.Sign(theKey())
}

// full is a mark with all fields.
func full() Mark {
	return Mark{Cluster: "pve1,pve2", VMID: theVM, Saga: "0123456789abcdef", Key: strings.Repeat("ab", 16), User: me, By: "qmclone",
		Source: source, SourceUUID: theUUID, Begun: 1700000000, Process: "host 0123456789abcdef pid:[1] 1 2", Renewed: 3, Kept: true, UUID: theUUID,
		Task: "UPID:pve1:0010C1F5:0A2B3C4D:65A1B2C3:qmclone:9000:terraform@pve!ci:"}.Sign(theKey())
}

// TestOwnershipMarkProvesOnlyItsOwnVM: a mark reads back as it was written, and proves the VM of its run and no other.
func TestOwnershipMarkProvesOnlyItsOwnVM(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := aMark(t)
		for _, breaks := range []string{"", "\n", "\n\n\n"} { // PVE ends a description with one, and a user may add more
			if back, ok := Parse(m.String() + breaks); !ok || back != m || !back.Verify(theKey()) {
				t.Fatalf("%q reads back as %+v, %t", m.String()+breaks, back, ok)
			}
		}
		config := map[string]string{"description": m.String() + "\n", "smbios1": "uuid=" + strings.ToUpper(theUUID)}
		if !m.Proves(m.VMID, config) {
			t.Fatal("does not prove its own VM")
		}
		if m.Proves(m.VMID+1, config) {
			t.Fatal("proves a clone under another id")
		}
		other := m
		other.Saga = strings.Repeat("0", 15) + map[bool]string{true: "1", false: "0"}[m.Saga[15] == '0']
		if other.Sign(theKey()).Proves(m.VMID, config) {
			t.Fatal("proves another transaction's VM")
		}
		elsewhere := m
		elsewhere.Cluster += ",pve10" // which none of those drawn has
		if elsewhere.Proves(m.VMID, config) {
			t.Fatal("proves another cluster's VM")
		}
		config["smbios1"] = "uuid=" + strings.ReplaceAll(theUUID, "a", "b")
		if m.Proves(m.VMID, config) != (m.UUID == "") {
			t.Fatal("a VM with a copy of the description and another uuid")
		}
		config["description"] = "mine\n" + m.String()
		if m.Proves(m.VMID, config) {
			t.Fatal("proves a description that only contains it")
		}
	})
}

// TestOwnershipMarkLaterInTheRun: the mark of a run proves its VM whatever the run has learned or said since.
func TestOwnershipMarkLaterInTheRun(t *testing.T) {
	m := full()
	config := map[string]string{"description": m.String(), "smbios1": "uuid=" + theUUID}
	early := Mark{Cluster: m.Cluster, VMID: m.VMID, Saga: m.Saga}
	if !early.Proves(theVM, config) {
		t.Error("the run's own mark, from before it knew the uuid")
	}
	delete(config, "smbios1")
	if !m.Proves(theVM, config) {
		t.Error("a VM that has no uuid yet")
	}
}

// field texts that are not of its form, for each field.
func malformed() map[string][]string {
	const control, escape = "\x00", "\x1b[2J"
	all := map[string][]string{
		"cluster":     {"pve1 pve2", "pve1,", ",pve1", "pve1;id", "pve1,,pve2", "pve_1", "pve1/.."},
		"vmid":        {"0", "99", "0400", "+400", "-400", "1e3", "0x190", "1000000000", "4OO", "４００"},
		"transaction": {"x /dev/null; id >  ; #", "0123456789ABCDEF", "0123456789abcdef0", "0123456789abcde", "$(id)0123456789ab"},
		"key":         {strings.Repeat("AB", 16), strings.Repeat("ab", 15), strings.Repeat("ab", 17), strings.Repeat("zz", 16)},
		"user":        {"terraform", "@pve", "a b@pve", "a:b@pve", "a/b@pve", "a@pve!", "a@pve!!b", "a@pve!b c", "a@p;id"},
		"by":          {"qmcreat", "qmcreate2", "qmdestroy", "QMCREATE", "qmcreate|qmclone", "vzcreate"},
		"source":      {"0", "09000", "-1", "1000000000", "x"},
		"source uuid": {theUUID[1:], theUUID + "0", "g" + theUUID[1:]},
		"process":     {"host", "host boot pid:[1] 1", "host boot pid:[1] 1 2 3", "host  boot pid:[1] 1 2", "höst boot pid:[1] 1 2"},
		"renewed":     {"-1", "00", "01", "1.0", "1000000000"},
		"kept":        {"no", "YES", "1", "true"},
		"uuid":        {theUUID[1:], theUUID + "0", "g" + theUUID[1:], "{" + theUUID[1:]},
		"task":        {"UPID", "UPID:", "upid:pve1:", "UPID:pve1: x", "x UPID:pve1:"},
		"signature": {strings.Repeat("a", 63), strings.Repeat("a", 65), strings.Repeat("A", 64), strings.Repeat("g", 64),
			strings.ToUpper(full().Signature)},
	}
	for _, f := range fields() {
		m := full()
		good := f.get(&m)
		all[f.name] = append(all[f.name], "", " ", good+" ", " "+good, good+"\r", good+"\t", good+control, control+good, good+escape,
			escape+good, good[:1]+"\x7f"+good[1:], good[:1]+"\x1b"+good[1:], good+"\nmore", good+"\n"+f.name+": "+good)
	}
	return all
}

// TestOwnershipMarkTakesExactFieldsOnly: a field of a forged mark cannot carry words of a command, or anything else that
// the provider does not write there itself.
func TestOwnershipMarkTakesExactFieldsOnly(t *testing.T) {
	good, refused := full().String(), 0
	if _, ok := Parse(good); !ok {
		t.Fatalf("refuses a good mark:\n%s", good)
	}
	for name, values := range malformed() {
		key := "\n" + name + ": "
		at := strings.Index(good, key) + len(key)
		end := at + strings.Index(good[at:]+"\n", "\n")
		for _, value := range values {
			refused++
			if m, ok := Parse(good[:at] + value + good[end:]); ok {
				t.Errorf("took %q for the field %q of a mark: %+v", value, name, m)
			}
		}
	}
	t.Logf("%d malformed fields", refused)
}

// TestOwnershipMarkTakesExactTextsOnly: all of the description is the mark, with its fields in their order.
func TestOwnershipMarkTakesExactTextsOnly(t *testing.T) {
	good := full().String()
	lines := strings.Split(good, "\n")
	texts := map[string]string{"nothing": "", "a text": "golden image", "the title": title, "the title, and a break": title + "\n\n",
		"a text before": "mine\n" + good, "a text after": good + "\nmine", "a blank line first": "\n" + good, "a space after": good + " ",
		"CRLF": strings.ReplaceAll(good, "\n", "\r\n"), "CR": strings.ReplaceAll(good, "\n", "\r"), "a CR at the end": good + "\r\n",
		"capital keys": strings.Replace(good, "cluster", "Cluster", 1), "no space": strings.Replace(good, "vmid: ", "vmid:", 1),
		"two spaces": strings.Replace(good, "vmid: ", "vmid:  ", 1), "one break": strings.Replace(good, "\n\n", "\n", 1),
		"three breaks": strings.Replace(good, "\n\n", "\n\n\n", 1), "percent signs": strings.ReplaceAll(good, "\n", "%0A")}
	for i := 2; i < len(lines); i++ {
		name, _, _ := strings.Cut(lines[i], ": ")
		texts[name+" twice"] = strings.Join(append(append(append([]string{}, lines[:i+1]...), lines[i]), lines[i+1:]...), "\n")
		texts["a line before "+name] = strings.Join(append(append(append([]string{}, lines[:i]...), "more: x"), lines[i:]...), "\n")
		if i > 2 {
			swapped := append([]string{}, lines...)
			swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
			texts[name+" too early"] = strings.Join(swapped, "\n")
		}
		without := strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), "\n")
		if !fields()[i-2].optional {
			texts["no "+name] = without
		} else if m, ok := Parse(without); !ok || m.Verify(theKey()) {
			t.Errorf("without %s it is a mark %t, and verifies %t", name, ok, m.Verify(theKey()))
		}
	}
	for what, text := range texts {
		if m, ok := Parse(text); ok {
			t.Errorf("%s: took for an ownership mark %q: %+v", what, text, m)
		}
	}
}

// TestOwnershipMarkIsSigned: a mark with one bit changed, or signed with another key, does not count.
func TestOwnershipMarkIsSigned(t *testing.T) {
	m := full()
	text, parsed := m.String(), 0
	for at := range len(text) {
		for bit := range 8 {
			changed := []byte(text)
			changed[at] ^= 1 << bit
			found, ok := Parse(string(changed))
			if ok {
				parsed++
			}
			if ok && found.Verify(theKey()) {
				t.Errorf("%q instead of %q in %q, and it verifies", changed[at], text[at], text[:at])
			}
		}
	}
	if parsed == 0 {
		t.Error("no changed mark could be read, so nothing was verified")
	}
	for _, key := range [][]byte{nil, {}, []byte("another"), theKey()[1:], append(theKey(), 'x')} {
		if m.Verify(key) || len(key) == 0 && m.Sign(key).Verify(key) {
			t.Errorf("the key %q verifies it", key)
		}
	}
	if unsigned := (Mark{}); unsigned.Verify(theKey()) {
		t.Error("a mark without a signature verifies")
	}
	if again := m.Sign([]byte("another")).Sign(theKey()); again != m {
		t.Errorf("signed once more it is %+v", again)
	}
}

// TestOwnershipMarkHasOneText: of all texts only the provider's own is read as a mark, so that nothing unsigned hides in
// a signed one.
func TestOwnershipMarkHasOneText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := aMark(t)
		lines := strings.Split(m.String(), "\n")
		at := rapid.IntRange(2, len(lines)).Draw(t, "at")
		extra := rapid.SampledFrom([]string{"", "source: 0", "kept: yes", "kept: ", "process: ", "uuid: ", "task: ", "renewed: 0"}).Draw(t, "extra")
		text := strings.Join(append(append(append([]string{}, lines[:at]...), extra), lines[at:]...), "\n")
		if found, ok := Parse(text); ok && found.String() != strings.TrimRight(text, "\n") {
			t.Fatalf("%q is read as %q", text, found)
		}
	})
}

// TestOwnershipMarkOfEarlierReleases: they signed nothing, so their marks prove nothing; a VM that has one is not
// finished, all the same.
func TestOwnershipMarkOfEarlierReleases(t *testing.T) {
	for _, more := range []string{"deadline: 2026-01-01T00:00:00Z", "lease: 2026-01-01T00:00:00Z",
		"lease: 2026-01-01T00:00:00Z\nprocess: host 00000000-0000-0000-0000-000000000000 pid:[1] 1 2\nuser: terraform@pve",
		"lease: 2026-01-01T00:00:00Z\nuser: terraform@pve\nrestore: 2026-01-01T00:00:00Z"} {
		text := fmt.Sprintf("%s\n\ncluster: pve1,pve2\nvmid: 400\ntransaction: 0123456789abcdef\n%s", title, more)
		if _, ok := Parse(text); ok || !IsMark(text) {
			t.Errorf("%q is a mark %t, claims to be one %t", text, ok, IsMark(text))
		}
	}
	for text, want := range map[string]bool{full().String(): true, title: true, title + " Really.": true, "": false, "mine\n" + title: false} {
		if IsMark(text) != want {
			t.Errorf("%q claims to be a mark: %t", text, !want)
		}
	}
}

// TestOwnershipOfAMarkOlderThanTheTaskLists: the clone that made a guest has left the task lists, and a later clone of the same source is
// the last that they have. The mark's own time tells that it is too old; one of an older release has none, and counts by that clone.
func TestOwnershipOfAMarkOlderThanTheTaskLists(t *testing.T) {
	for _, m := range makings() {
		for days, owner := range map[int]Owner{0: Ours, 1: Ours, 3: Unknown} {
			f := factsOf(m)
			if days > 0 {
				f.Mark.Begun = int(f.Clocks["pve1"]) - days*24*60*60 + 60
			}
			if !clones(m) || m.known {
				owner = Ours // the task itself tells when it was made
			}
			f.Mark = f.Mark.Sign(theKey())
			if v := f.judged(); v.Owner != owner || owner == Unknown && !strings.Contains(v.Reason, "a mark counts for") {
				t.Errorf("%s, %d days: %+v", m, days, v)
			}
		}
	}
}
