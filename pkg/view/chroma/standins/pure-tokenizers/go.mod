module github.com/amikos-tech/pure-tokenizers

go 1.26.0
