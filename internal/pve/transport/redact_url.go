package transport

import (
	"regexp"
	"strings"
	"unicode"
)

// A URL may hold the key to its file: the password of a user, and values of its query, such as the signature of a
// presigned address. PVE prints the address of a download in the task's log, and again when wget fails (pve-common
// Tools.pm download_file_from_url).

// webURL is a URL in a text, as it is or in JSON with escaped slashes.
var webURL = regexp.MustCompile(`https?:\\?/\\?/[^\s'"<>]+`)

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

// urlParts are the secrets of a URL, as they are written in it, and where they stand.
type urlParts struct {
	password string
	query    []queryValue
}

type queryValue struct{ name, value string }

// cutURL takes a URL apart. Package net/url would not take one with a stray "%", and would lose the spelling.
func cutURL(address string) (p urlParts) {
	_, rest, ok := strings.Cut(address, "://")
	if !ok {
		return p
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	authority, _, _ := strings.Cut(rest, "/")
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		_, p.password, _ = strings.Cut(authority[:at], ":")
	}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		p.query = append(p.query, queryValue{name, value})
	}
	return p
}

// withoutURLSecrets is a text whose URLs show no secret.
func withoutURLSecrets(s string) string {
	if !strings.Contains(s, "http") {
		return s
	}
	return webURL.ReplaceAllStringFunc(s, func(address string) string {
		plain := strings.ReplaceAll(address, `\/`, "/")
		isEscaped := plain != address
		p := cutURL(plain)
		address = plain
		if p.password != "" {
			address = strings.Replace(address, ":"+p.password+"@", ":"+redacted+"@", 1)
		}
		for _, q := range p.query {
			if q.value != "" && (isCredential(q.name) || len(q.value) > maxPlain) {
				address = strings.Replace(address, q.name+"="+q.value, q.name+"="+redacted, 1)
			}
		}
		if isEscaped {
			return strings.ReplaceAll(address, "/", `\/`)
		}
		return address
	})
}

// learnURL remembers the secrets of a URL that tell enough not to be ordinary words: they are taken out wherever they
// stand. Others are taken out of the URL alone.
func (r *redactor) learnURL(address string) {
	p := cutURL(address)
	all := []string{p.password}
	for _, q := range p.query {
		if isCredential(q.name) {
			all = append(all, q.value)
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
