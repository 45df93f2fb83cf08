package perl

import (
	"errors"
	"fmt"
	"strings"
)

// Denied is a 403. A detail stands in brackets behind PVE's fixed words (pve-common Exception.pm, raise_perm_exc).
func Denied(detail string) *Error {
	text := "Permission check failed"
	if detail != "" {
		text += " (" + detail + ")"
	}
	return &Error{Status: 403, Message: text}
}

// Stringify makes the text of an exception as Perl interpolates it: status, message and parameter errors.
func Stringify(err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Status == 500 {
		return err
	}
	text := fmt.Sprintf("%d %s", e.Status, e.Message)
	for k, v := range e.Errors {
		text += fmt.Sprintf("\n%s: %s", k, strings.TrimRight(v, "\n"))
	}
	return errors.New(text)
}

// Message is what a Perl handler sees of an error in $@: the bare message of a die.
func Message(err error) string { return OneLine(Stringify(err)) }

// Error is an answer other than 200. Errors is the parameter map of a 400.
type Error struct {
	Status  int
	Message string
	Errors  map[string]string
}

// Error is the status and the message.
func (e *Error) Error() string { return fmt.Sprintf("%d %s", e.Status, e.Message) }

// Die is a Perl die in API code: status 500 with the text as reason.
func Die(format string, args ...any) *Error {
	return &Error{Status: 500, Message: fmt.Sprintf(format, args...)}
}

// Invalid is a 400 with one parameter error.
func Invalid(param, text string) *Error {
	return &Error{Status: 400, Message: "Parameter verification failed.", Errors: map[string]string{param: text}}
}

// OneLine is the text of an error on one line, as the task log has it.
func OneLine(err error) string {
	text := err.Error()
	if e := (*Error)(nil); errors.As(err, &e) {
		text = e.Message
	}
	return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", " ")
}
