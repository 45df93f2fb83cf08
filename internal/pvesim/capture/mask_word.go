package capture

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// MaskKinds are the kinds of words that can be replaced by pseudonyms; "all" stands for all of them.
func MaskKinds() []string {
	return []string{"addresses", "descriptions", "macs", "names", "sshkeys", "tags"}
}

// mask replaces words by pseudonyms: the same word by the same one wherever it stands, so that what refers to each
// other still does.
type mask struct {
	kinds map[string]bool
	words map[string]map[string]string // by sort of word: pseudonyms by word
	nets  map[string]int
}

func newMask(kinds []string) (*mask, error) {
	m := &mask{kinds: map[string]bool{}, words: map[string]map[string]string{}, nets: map[string]int{}}
	for _, kind := range kinds {
		switch {
		case kind == "all":
			for _, k := range MaskKinds() {
				m.kinds[k] = true
			}
		case slices.Contains(MaskKinds(), kind):
			m.kinds[kind] = true
		default:
			return nil, fmt.Errorf("%q cannot be masked: it is not one of all, %s", kind, strings.Join(MaskKinds(), ", "))
		}
	}
	return m, nil
}

// hidden is what PVE itself shows in the place of a password.
const hidden = "**********"

// secretWord finds secrets that a user has written into free text or arguments of QEMU; tokenSecret an API token with
// its secret.
var (
	secretWord  = regexp.MustCompile(`(?i)(pass(?:word|wd|phrase)?|secret|token|api[-_]?key)(\s*[=:]\s*)[^\s,;]+`)
	tokenSecret = regexp.MustCompile(`(![A-Za-z][\w.-]*=)[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`)
)

func scrub(text string) string {
	return tokenSecret.ReplaceAllString(secretWord.ReplaceAllString(text, "${1}${2}"+hidden), "${1}"+hidden)
}

// word is the pseudonym of a word: its sort and a number.
func (m *mask) word(sort, word, form string) string {
	if word == "" {
		return ""
	}
	if m.words[sort] == nil {
		m.words[sort] = map[string]string{}
	}
	if m.words[sort][word] == "" {
		m.words[sort][word] = fmt.Sprintf(form, len(m.words[sort])+1)
	}
	return m.words[sort][word]
}

func (m *mask) node(name string) string { return m.word("node", name, "node%d") }

func (m *mask) storage(id string) string { return m.word("storage", id, "storage%d") }

// pool keeps how pools are nested.
func (m *mask) pool(id string) string {
	parts := strings.Split(id, "/")
	for i := range parts {
		parts[i] = m.word("pool", parts[i], "pool%d")
	}
	return strings.Join(parts, "/")
}

// subject is a user, or a token of one. root@pam is on every server.
func (m *mask) subject(id string) string {
	user, token, isToken := strings.Cut(id, "!")
	name, realm, _ := strings.Cut(user, "@")
	if user != "root@pam" {
		user = m.word("user", name, "user%d") + "@" + realm
	}
	if isToken {
		return user + "!" + m.word("token", token, "token%d")
	}
	return user
}

// role leaves PVE's own roles under their names.
func (m *mask) role(id string) string {
	if state.IsSpecial(id) {
		return id
	}
	return m.word("role", id, "role%d")
}

// ordered are the values of a map in the order of their keys: the numbers in pseudonyms depend on it.
func ordered[T any](all map[string]T) []T {
	out := make([]T, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[key])
	}
	return out
}

func (m *mask) description(text string) string { return m.word("description", text, "description %d") }

func (m *mask) comment(values map[string]string) {
	if c, ok := values["comment"]; ok {
		values["comment"] = m.description(c)
	}
}

func (m *mask) mapping(id string) string { return m.word("mapping", id, "mapping%d") }
