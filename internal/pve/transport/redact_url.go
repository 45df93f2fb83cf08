package transport

import (
	"regexp"
	"strings"
	"unicode"
)

// A URL may hold the key to its file: a user, which may be a token, a password, and values of its query, such as the
// signature of a presigned address. PVE prints the address of a download in the task's log, and again when wget fails
// (pve-common Tools.pm download_file_from_url).

// webURL is a URL in a text, as it is or in JSON with escaped slashes. A password may have a "'" in it.
var webURL = regexp.MustCompile(`(?i)https?:\\?/\\?/(?:[^\s"<>/\\?#]*@)?[^\s'"<>]+`)

// maxPlain: a shorter value of a query is the name of a version or a format. A longer one may be a signature, or the
// name of a file, so it is taken out of its URL and left alone elsewhere.
const maxPlain = 15

// credentialNames are parts of the names of query values that are secrets: of Amazon, Google, Azure, Cloudflare and
// Artifactory, and of tokens in general.
var credentialNames = []string{"signature", "token", "secret", "password", "credential", "apikey", "api_key", "api-key",
	"accesskey"}

func isCredential(name string) bool {
	name = strings.ToLower(name)
	for _, part := range credentialNames {
		if strings.Contains(name, part) {
			return true
		}
	}
	return name == "sig" || name == "pass"
}

// urlParts are the parts of a URL, as they are written in it.
type urlParts struct {
	scheme   string
	userinfo string // the user and the password
	place    string // the host and the path
	query    []string
	fragment string
}

// cutURL takes a URL apart. Package net/url would not take one with a stray "%", and would lose the spelling.
func cutURL(address string) (p urlParts) {
	scheme, rest, _ := strings.Cut(address, "://")
	p.scheme = scheme
	rest, fragment, found := strings.Cut(rest, "#")
	if found {
		p.fragment = "#" + fragment
	}
	rest, query, found := strings.Cut(rest, "?")
	if found {
		p.query = strings.Split(query, "&")
	}
	authority, _, _ := strings.Cut(rest, "/")
	at := strings.LastIndex(authority, "@")
	p.userinfo, p.place = rest[:max(at, 0)], rest[at+1:]
	return p
}

// masked is the URL without its secrets.
func (p urlParts) masked() string {
	var b strings.Builder
	b.WriteString(p.scheme + "://")
	if p.userinfo != "" {
		b.WriteString(redacted + "@")
	}
	b.WriteString(p.place)
	before := "?"
	for _, pair := range p.query {
		b.WriteString(before + maskedPair(pair))
		before = "&"
	}
	if p.fragment != "" { // which is no part of the request, and has no other form
		pairs := strings.Split(p.fragment[1:], "&")
		for i, pair := range pairs {
			pairs[i] = maskedPair(pair)
		}
		b.WriteString("#" + strings.Join(pairs, "&"))
	}
	return b.String()
}

// maskedPair is a part of a query without its secret. One without a name may be a key as a whole.
func maskedPair(pair string) string {
	name, value, named := strings.Cut(pair, "=")
	switch {
	case !named && len(pair) > maxPlain:
		return redacted
	case value != "" && (isCredential(name) || len(value) > maxPlain):
		return name + "=" + redacted
	}
	return pair
}

// withoutURLSecrets is a text whose URLs show no secret.
func withoutURLSecrets(s string) string {
	if !strings.Contains(s, ":/") && !strings.Contains(s, `:\/`) {
		return s
	}
	return webURL.ReplaceAllStringFunc(s, func(address string) string {
		plain := strings.ReplaceAll(address, `\/`, "/")
		shown := cutURL(plain).masked()
		if plain != address {
			return strings.ReplaceAll(shown, "/", `\/`)
		}
		return shown
	})
}

// learnURL remembers the secrets of a URL that tell enough not to be ordinary words: they are taken out wherever they
// stand. Others are taken out of the URL alone.
func (r *redactor) learnURL(address string) {
	p := cutURL(address)
	user, password, _ := strings.Cut(p.userinfo, ":")
	all := []string{user, password}
	for _, pair := range p.query {
		if name, value, _ := strings.Cut(pair, "="); isCredential(name) {
			all = append(all, value)
		}
	}
	for _, secret := range all {
		if isTelling(secret) {
			r.remember(secret)
		}
	}
}

// isTelling reports whether a text is no word that stands in messages anyway.
func isTelling(s string) bool {
	isOther := func(c rune) bool { return !unicode.IsLetter(c) }
	return len(s) > maxPlain || len(s) >= 8 && strings.ContainsFunc(s, isOther)
}
