package fastpath

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// repack turns a state as Terraform stores it, JSON, into what it is in a message, MessagePack, without values in
// between. ok is false for whatever Terraform does not write itself: keys out of order, text where a number belongs.
// The framework knows what to make of that. Attributes that the schema does not have are left out, and those that are
// missing are null, as there.
func (p *place) repack(state []byte) (packed []byte, ok bool) {
	r := &repacker{rest: state, out: make([]byte, 0, len(state))}
	r.value(p)
	r.space()
	return r.out, !r.failed && len(r.rest) == 0
}

// repacker reads at rest and writes to out. After a failure it reads and writes nonsense, but never beyond the end.
type repacker struct {
	rest   []byte
	out    []byte
	failed bool
}

func (r *repacker) fail() {
	r.failed, r.rest = true, nil
}

func (r *repacker) space() {
	for len(r.rest) > 0 && (r.rest[0] == ' ' || r.rest[0] == '\n' || r.rest[0] == '\t' || r.rest[0] == '\r') {
		r.rest = r.rest[1:]
	}
}

// peek is the next byte that is no space, 0 at the end.
func (r *repacker) peek() byte {
	if r.space(); len(r.rest) == 0 {
		return 0
	}
	return r.rest[0]
}

// take reads a byte if it is next.
func (r *repacker) take(c byte) bool {
	if r.peek() != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// demand reads a byte that must be next.
func (r *repacker) demand(c byte) {
	if !r.take(c) {
		r.fail()
	}
}

// word reads a word if it is next.
func (r *repacker) word(w string) bool {
	r.space()
	if len(r.rest) < len(w) || string(r.rest[:len(w)]) != w {
		return false
	}
	r.rest = r.rest[len(w):]
	return true
}

func (r *repacker) value(p *place) {
	switch {
	case r.failed:
		return
	case r.word("null"):
		r.out = append(r.out, packNil)
		return
	}
	switch p.form {
	case text:
		r.out = packString(r.out, r.text())
	case truth:
		r.truth()
	case whole, decimal:
		r.number()
	case object:
		r.object(p)
	case dictionary:
		r.dictionary(p)
	case list, set:
		r.list(p)
	}
}

func (r *repacker) truth() {
	switch {
	case r.word("true"):
		r.out = append(r.out, packTrue)
	case r.word("false"):
		r.out = append(r.out, packFalse)
	default:
		r.fail()
	}
}

func (r *repacker) number() {
	r.space()
	end := 0
	for end < len(r.rest) && strings.IndexByte("+-.0123456789eE", r.rest[end]) >= 0 {
		end++
	}
	digits := r.rest[:end]
	r.rest = r.rest[end:]
	if !json.Valid(digits) { // also if there are none
		r.fail()
		return
	}
	if n, err := strconv.ParseInt(string(digits), 10, 64); err == nil {
		r.out = packInt(r.out, n)
		return
	}
	number, _, err := big.ParseFloat(string(digits), 10, 512, big.ToNearestEven) // tftypes has this precision
	if err != nil {
		r.fail()
		return
	}
	r.out = packNumber(r.out, number)
}

// text reads a text. One with an escape is left to package json.
func (r *repacker) text() string {
	if !r.take('"') {
		r.fail()
		return ""
	}
	end, plain := 0, true
	for ; end < len(r.rest) && r.rest[end] != '"'; end++ {
		switch c := r.rest[end]; {
		case c < ' ':
			r.fail()
			return ""
		case c == '\\':
			plain = false
			end++ // whatever it is, it does not end the text
		}
	}
	if end >= len(r.rest) {
		r.fail()
		return ""
	}
	raw := r.rest[:end]
	r.rest = r.rest[end+1:]
	s := string(raw)
	if !plain && json.Unmarshal([]byte(`"`+s+`"`), &s) != nil || !utf8.ValidString(s) {
		r.fail()
	}
	return s
}

func (r *repacker) object(p *place) {
	r.demand('{')
	r.out = packObject.header(r.out, len(p.names))
	next := 0
	missing := func(before string, all bool) {
		for ; next < len(p.names) && (all || p.names[next] < before); next++ {
			r.out = append(packString(r.out, p.names[next]), packNil)
		}
	}
	r.entries(func(key string) {
		if missing(key, false); next < len(p.names) && p.names[next] == key {
			r.out = packString(r.out, key)
			r.value(p.children[next])
			next++
			return
		}
		r.skip()
	})
	missing("", true)
}

// skip reads a value and drops it.
func (r *repacker) skip() {
	decoder := json.NewDecoder(bytes.NewReader(r.rest))
	var dropped json.RawMessage
	if decoder.Decode(&dropped) != nil {
		r.fail()
		return
	}
	r.rest = r.rest[decoder.InputOffset():]
}

func (r *repacker) dictionary(p *place) {
	r.demand('{')
	r.collection(packObject, func() (n int) {
		r.entries(func(key string) {
			n++
			r.out = packString(r.out, key)
			r.value(p.element)
		})
		return n
	})
}

func (r *repacker) list(p *place) {
	r.demand('[')
	r.collection(packList, func() (n int) {
		if r.take(']') {
			return 0
		}
		for more := true; more && !r.failed; more = r.take(',') {
			n++
			r.value(p.element)
		}
		r.demand(']')
		return n
	})
}

// collection writes the header with the number of elements before the elements, which are counted as they are written.
func (r *repacker) collection(header counted, elements func() int) {
	start := len(r.out)
	n := elements()
	written := string(r.out[start:])
	r.out = append(header.header(r.out[:start], n), written...)
}

// entries reads the keys of an object, up to its end; each must be greater than the one before.
func (r *repacker) entries(entry func(key string)) {
	if r.take('}') {
		return
	}
	last := ""
	for first, more := true, true; more && !r.failed; first, more = false, r.take(',') {
		r.space()
		key := r.text()
		r.demand(':')
		if !first && key <= last {
			r.fail()
			return
		}
		last = key
		entry(key)
	}
	r.demand('}')
}
