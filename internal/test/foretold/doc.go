// Package foretold holds the law that the first plan of a change names all that its apply destroys, drops or stops.
package foretold
