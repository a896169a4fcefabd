-- A fact of the kind "frozen" is known from here on.
SELECT 1;
