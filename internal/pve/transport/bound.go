package transport

import (
	"fmt"
	"io"
)

const (
	// maxAnswer bounds the bytes of an answer, unpacked.
	maxAnswer = 64 << 20
	// maxElements bounds what an answer becomes in memory: three bytes of JSON, "{},", are an object of half a kilobyte in
	// a listing. The largest clusters list some ten thousand objects.
	maxElements = 200_000
	// maxMembers bounds the members of all objects of an answer. One is weighed against elements of lists.
	maxMembers = 16 * maxElements
	// maxDepth bounds how deep lists and objects lie in each other; PVE's answers have six levels at most.
	maxDepth = 100
)

// bounded reads an answer and counts, as it comes, the elements and members of its JSON. It stops an answer that is too
// large before the rest of it is unpacked.
type bounded struct {
	io.Reader
	bytes    int
	cost     int
	isObject []bool // of the lists and objects that are open
	isText   bool
	escaped  bool
}

// readAnswer reads a whole body.
func readAnswer(body io.Reader) ([]byte, error) {
	return io.ReadAll(&bounded{Reader: body})
}

// Read reads on.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.bytes += n; b.bytes > maxAnswer {
		return 0, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	b.count(p[:n])
	switch {
	case b.cost > maxMembers:
		return 0, fmt.Errorf("the answer has more than %d elements", maxElements)
	case len(b.isObject) > maxDepth:
		return 0, fmt.Errorf("the answer is nested deeper than %d levels", maxDepth)
	case err != nil && err != io.EOF:
		return n, fmt.Errorf("the answer broke off: %w", err)
	}
	return n, err
}

// count goes through the next bytes of the answer.
func (b *bounded) count(p []byte) {
	for i := 0; i < len(p); i++ {
		if b.isText {
			i = b.text(p, i)
			continue
		}
		switch p[i] {
		case '"':
			b.isText = true
		case '{', '[':
			b.isObject = append(b.isObject, p[i] == '{')
			b.add()
		case '}', ']':
			b.isObject = b.isObject[:max(0, len(b.isObject)-1)]
		case ',':
			b.add()
		}
	}
}

// text goes on from i in a string, and returns where it ends or the bytes do.
func (b *bounded) text(p []byte, i int) int {
	for ; i < len(p); i++ {
		switch {
		case b.escaped:
			b.escaped = false
		case p[i] == '\\':
			b.escaped = true
		case p[i] == '"':
			b.isText = false
			return i
		}
	}
	return i
}

// add counts one more value in the innermost list or object.
func (b *bounded) add() {
	switch open := len(b.isObject); {
	case open == 0: // not JSON
	case b.isObject[open-1]:
		b.cost++
	default:
		b.cost += maxMembers / maxElements
	}
}
