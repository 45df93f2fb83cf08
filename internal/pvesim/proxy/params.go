package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
)

// addParam adds a value; repeated ones are joined by NUL, which is how the rules know an array.
func addParam(params map[string]string, key, value string) {
	if key == "_dc" {
		return // the web interface's cache buster
	}
	if was, ok := params[key]; ok {
		value = was + "\x00" + value
	}
	params[key] = value
}

// DecodeForm is AnyEvent.pm's decode_urlencoded: pairs are split at & and at ;, and a value ends at its second
// unescaped =.
func DecodeForm(params map[string]string, form string) {
	for _, pair := range strings.FieldsFunc(form, func(c rune) bool { return c == '&' || c == ';' }) {
		parts := strings.Split(pair, "=")
		value := ""
		if len(parts) > 1 {
			value = parts[1]
		}
		addParam(params, formText(parts[0]), formText(value))
	}
}

func formText(s string) string {
	s = unescape(strings.ReplaceAll(s, "+", " "))
	if !utf8.ValidString(s) {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return s
}

// decodeJSON reads a JSON object; a boolean becomes 0 or 1, an array its elements joined by NUL.
func decodeJSON(params map[string]string, body []byte) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var object map[string]any
	if err := dec.Decode(&object); err != nil {
		return fmt.Errorf("malformed JSON string: %w", err)
	}
	for key, value := range object {
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, item := range list {
			if text, ok := scalar(item); ok {
				addParam(params, key, text)
			}
		}
	}
	return nil
}

func scalar(value any) (string, bool) {
	switch v := value.(type) {
	case nil:
		return "", false
	case bool:
		if v {
			return "1", true
		}
		return "0", true
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	}
	text, err := json.Marshal(value)
	return string(text), err == nil
}

// params decodes query and body; the query wins. The answer is a refusal of the HTTP layer, nil if there is none.
func (q *httpRequest) params(limit int64, isUpload bool) (params map[string]string, up *engine.Upload,
	refused *answer) {
	params = map[string]string{}
	query := map[string]string{}
	DecodeForm(query, q.query)
	if q.length() > 0 {
		if q.method != "PUT" && q.method != "POST" {
			return query, nil, plainError(501, "Unexpected content for method '"+q.method+"'")
		}
		kind, attributes, _ := mime.ParseMediaType(q.header["content-type"])
		switch {
		case q.tooLarge || int64(len(q.body)) > limit && !isUpload:
			return query, nil, plainError(501, "for data too large")
		case isUpload && kind == "multipart/form-data" && attributes["boundary"] != "":
			var whole bool
			if up, whole = q.readUpload(params, attributes["boundary"]); !whole {
				return query, nil, &answer{cut: true} // a request that broke off is ignored
			}
		case isUpload: // AnyEvent.pm, authenticate_and_handle_request dies
			return query, nil, plainError(500, "upload 'Content-Type '"+q.header["content-type"]+"' not implemented")
		case kind == "application/json":
			if err := decodeJSON(params, q.body); err != nil {
				return query, nil, plainError(500, err.Error())
			}
		case kind == "" || kind == "application/x-www-form-urlencoded":
			DecodeForm(params, string(q.body))
		default:
			return query, nil, plainError(506, "upload 'Content-Type '"+q.header["content-type"]+"' not implemented")
		}
	}
	for key, value := range query {
		params[key] = value
	}
	return params, up, nil
}
