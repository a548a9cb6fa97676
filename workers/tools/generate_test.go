package tools

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// schemaFor returns the JSON Schema of the argument struct A, compact: that
// unknown fields are refused is not said in it, which would cost 29 bytes a tool
// in each request, but to who gives one. A field is optional when its json tag says
// omitempty or omitzero; the tag jsonschema describes it, enum lists its words
// separated by commas, min and max bound a number. The schemas of the tools
// are made by it ahead of time, and embedded: to reflect at each start would
// cost more than the rest of All.
func schemaFor[A any]() (json.RawMessage, error) {
	return schemaOf(reflect.TypeFor[A]())
}

func schemaOf(t reflect.Type) (json.RawMessage, error) {
	s, err := jsonschema.ForType(t, nil)
	if err != nil {
		return nil, fmt.Errorf("generate schema of %v: %w", t, err)
	}
	if err := refine(s, t); err != nil {
		return nil, fmt.Errorf("generate schema of %v: %w", t, err)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode schema of %v: %w", t, err)
	}
	return data, nil
}

// refine drops the null alternatives, which cost bytes in every request (a null
// is accepted and means absent), and applies the tags that the library does not
// know.
func refine(s *jsonschema.Schema, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for _, name := range s.Types {
		if name != "null" {
			s.Type = name
		}
	}
	s.Types = nil
	switch t.Kind() {
	case reflect.Slice:
		return refine(s.Items, t.Elem())
	case reflect.Struct:
		return refineFields(s, t)
	}
	return nil
}

func refineFields(s *jsonschema.Schema, t reflect.Type) error {
	s.AdditionalProperties = nil
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := s.Properties[name]
		if p == nil {
			continue
		}
		if err := refine(p, f.Type); err != nil {
			return err
		}
		if words := f.Tag.Get("enum"); words != "" {
			for w := range strings.SplitSeq(words, ",") {
				p.Enum = append(p.Enum, w)
			}
		}
		var err error
		if p.Minimum, err = bound(f, "min"); err != nil {
			return err
		}
		if p.Maximum, err = bound(f, "max"); err != nil {
			return err
		}
	}
	return nil
}

func bound(f reflect.StructField, tag string) (*float64, error) {
	text := f.Tag.Get(tag)
	if text == "" {
		return nil, nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("field %s: tag %s: %w", f.Name, tag, err)
	}
	return &v, nil
}
