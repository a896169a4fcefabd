-- Facts of the kind pause are new, and an Amnesia that does not know them must say so instead of calling the file damaged.
SELECT 1;
