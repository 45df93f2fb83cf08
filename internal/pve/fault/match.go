package fault

import "strings"

// matches tells whether pattern occurs in text; "*" in it stands for any text within it, "#" for one or more digits.
func matches(pattern, text string) bool {
	for start := 0; start <= len(text); start++ {
		if matchesHere(pattern, text[start:]) {
			return true
		}
	}
	return false
}

// matchesHere tells whether text begins with pattern.
func matchesHere(pattern, text string) bool {
	i := strings.IndexAny(pattern, "*#")
	if i < 0 {
		return strings.HasPrefix(text, pattern)
	}
	if !strings.HasPrefix(text, pattern[:i]) {
		return false
	}
	wildcard, rest, text := pattern[i], pattern[i+1:], text[i:]
	if wildcard == '*' {
		return matches(rest, text)
	}
	digits := 0
	for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
		digits++
	}
	return digits > 0 && matchesHere(rest, text[digits:])
}
