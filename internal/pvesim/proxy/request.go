package proxy

import (
	"bufio"
	"errors"
	"io"
	"net/url"
	"strconv"
	"strings"
)

// httpRequest is a request as it came over the wire. It is read by hand, because PVE's own parser is odd and its
// answers to what it does not like are part of its behaviour.
type httpRequest struct {
	method, target, version string
	path                    string // decoded
	query                   string
	header                  map[string]string // by lower-case name
	body                    []byte
	tooLarge                bool
	in                      *bufio.Reader
	refusal                 *answer // of the HTTP layer, before anything looked at the request
}

var errHeader = errors.New("header too large")

// readHead reads request line and header. An error ends the connection without an answer, as PVE ends it.
func readHead(in *bufio.Reader) (*httpRequest, error) {
	line, err := readLine(in)
	for err == nil && line == "" {
		line, err = readLine(in) // blank lines before a request are skipped
	}
	if err != nil {
		return nil, err
	}
	q := &httpRequest{header: map[string]string{}, in: in}
	words := strings.Fields(line)
	if len(words) != 3 || !strings.HasPrefix(words[2], "HTTP/") {
		q.refusal = plainError(506, "http protocol version  not supported")
		return q, nil
	}
	q.method, q.target, q.version = words[0], words[1], strings.TrimPrefix(words[2], "HTTP/")
	if err := q.readHeader(); err != nil {
		return nil, err
	}
	q.check()
	return q, nil
}

func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}

func (q *httpRequest) readHeader() error {
	size, last := 0, ""
	for n := 0; ; n++ {
		line, err := readLine(q.in)
		if err != nil {
			return err
		}
		if line == "" {
			return nil
		}
		if size += len(line); n >= MaxHeaderLines || size > MaxHeaderBytes {
			return errHeader
		}
		name, value, ok := strings.Cut(line, ":")
		switch {
		case line[0] == ' ' || line[0] == '\t':
			q.header[last] += " " + strings.TrimSpace(line)
			continue
		case !ok:
			q.refusal = plainError(506, "unable to parse request header")
			continue
		}
		last = strings.ToLower(strings.TrimSpace(name))
		value = strings.TrimSpace(value)
		if was, twice := q.header[last]; twice {
			value = was + ", " + value
		}
		q.header[last] = value
	}
}

// check is what process_header refuses before authentication.
func (q *httpRequest) check() {
	if q.refusal != nil {
		return
	}
	path, query, _ := strings.Cut(q.target, "?")
	q.query = query
	switch {
	case q.version != "1.0" && q.version != "1.1":
		q.refusal = plainError(506, "http protocol version "+q.version+" not supported")
	case q.method != "GET" && q.method != "POST" && q.method != "PUT" && q.method != "DELETE":
		q.refusal = plainError(501, "method '"+q.method+"' not available")
	case !strings.HasPrefix(path, "/"):
		q.refusal = plainError(400, "invalid url")
	case q.header["transfer-encoding"] != "" && !strings.EqualFold(q.header["transfer-encoding"], "identity"):
		q.refusal = plainError(501, "chunked transfer encoding not supported")
	}
	q.path = unescape(path)
}

// unescape is Perl's uri_unescape: an invalid escape stays as it is.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	if out, err := url.PathUnescape(s); err == nil {
		return out
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// length is the announced size of the body; -1 if there is none.
func (q *httpRequest) length() int64 {
	n, err := strconv.ParseInt(q.header["content-length"], 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// readBody takes the body off the connection, unless it is longer than limit.
func (q *httpRequest) readBody(limit int64) {
	n := q.length()
	if n <= 0 {
		return
	}
	if n > limit {
		q.tooLarge = true
		return
	}
	q.body = make([]byte, n)
	if got, err := io.ReadFull(q.in, q.body); err != nil {
		q.body = q.body[:got]
	}
}

func (q *httpRequest) keepAlive() bool {
	c := strings.ToLower(q.header["connection"])
	if strings.Contains(c, "close") {
		return false
	}
	return q.version == "1.1" || strings.Contains(c, "keep-alive")
}

func under(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}
