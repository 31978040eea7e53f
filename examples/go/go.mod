module example.com/moorage

go 1.22
